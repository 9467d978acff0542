// Server-sent events by fetch, because EventSource cannot send an Authorization header.

const SILENCE = 5000; // ms without an event until the agent counts as hung; it sends one a second
const FIRST_PAUSE = 500; // ms; twice as long after each failure
const LONGEST_PAUSE = 15000;

// The data of each event in a body of text/event-stream.
export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text = (text + value).replaceAll("\r\n", "\n");
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const data = block.split("\n").filter((line) => line.startsWith("data:"));
      if (data.length) yield data.map((line) => line.slice(5).trimStart()).join("\n");
    }
  }
}

class Refused extends Error {}

async function listen(token, signal, alive, receive) {
  const headers = new Headers({ Accept: "text/event-stream" });
  try {
    headers.set("Authorization", `Bearer ${token}`);
  } catch {
    throw new Refused(); // characters that headers cannot contain
  }
  const answer = await fetch("v1/events", { headers, signal, cache: "no-store" });
  if (answer.status === 401 || answer.status === 403) throw new Refused();
  if (!answer.ok) throw new Error(`the agent answered ${answer.status}`);
  for await (const data of events(answer.body)) {
    alive();
    receive(JSON.parse(data));
  }
  throw new Error("the agent ended the connection");
}

// Listen until stopped or refused, and reconnect after every failure.
//
// handlers: { receive(data), lost(why, pause in ms), trying(), refused() }; `receive` must not throw.
// Returns { stop, retry }.
export function connect(token, handlers) {
  let stopped = false;
  let failures = 0;
  let wake = () => {};
  let abort = () => {};

  async function once() {
    const controller = new AbortController();
    let silence;
    const alive = () => {
      clearTimeout(silence);
      silence = setTimeout(() => controller.abort(new Error("no event for 5 s")), SILENCE);
    };
    abort = (why) => controller.abort(why);
    alive();
    try {
      await listen(token, controller.signal, alive, (data) => {
        failures = 0;
        if (!stopped) handlers.receive(data);
      });
    } finally {
      clearTimeout(silence);
      controller.abort();
    }
  }

  async function forever() {
    while (!stopped) {
      handlers.trying();
      try {
        await once();
      } catch (error) {
        if (stopped) return;
        if (error instanceof Refused) return handlers.refused();
        const pause = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** failures++);
        const why = error instanceof TypeError ? "the agent cannot be reached" : error.message;
        handlers.lost(why, pause);
        await new Promise((done) => {
          wake = done;
          setTimeout(done, pause);
        });
      }
    }
  }

  forever();
  return {
    stop() {
      stopped = true;
      abort(new Error("stopped"));
      wake();
    },
    retry: () => wake(),
  };
}
