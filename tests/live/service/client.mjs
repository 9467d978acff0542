// An application in JavaScript that knows nothing but the OpenAPI document: it finds operations by
// their ids, fills in what their schemas require, and believes only answers that fit them.
// Usage: node client.mjs URL TOKEN_FILE ROUNDS
import { readFileSync } from "node:fs";

const [url, tokenFile, rounds] = process.argv.slice(2);
const document = await (await fetch(`${url}/openapi.json`)).json();
const token = readFileSync(tokenFile, "utf8").trim();

const operations = {};
for (const [path, methods] of Object.entries(document.paths))
  for (const [method, operation] of Object.entries(methods))
    operations[operation.operationId] = { path, method, ...operation };

const resolve = (schema) =>
  schema.$ref ? schema.$ref.slice(2).split("/").reduce((at, key) => at[key], document) : schema;

async function call(id, body) {
  const { path, method, requestBody, responses, security } = operations[id];
  const headers = {};
  if (security.length) {
    const scheme = document.components.securitySchemes[Object.keys(security[0])[0]];
    if (scheme.type !== "http" || scheme.scheme !== "bearer") throw new Error("another scheme");
    headers.authorization = `Bearer ${token}`;
  }
  if (requestBody) headers["content-type"] = Object.keys(requestBody.content)[0];
  const answer = await fetch(url + path, {
    method: method.toUpperCase(),
    headers,
    body: requestBody && JSON.stringify(body),
  });
  const declared = responses[answer.status];
  if (!declared) throw new Error(`${id}: ${answer.status} is not in the document`);
  const found = await answer.json();
  const schema = resolve(declared.content["application/json"].schema);
  for (const name of schema.required ?? [])
    if (!(name in found)) throw new Error(`${id}: no ${name} in ${JSON.stringify(found)}`);
  return { status: answer.status, body: found };
}

const played = {};
for (let round = 0; round < Number(rounds); round++) {
  const { body: chosen } = await call("choose", { event: `node-${round}` });
  played[chosen.arm] = (played[chosen.arm] ?? 0) + 1;
  const loss = chosen.arm === "cocoa" ? 0.1 : 0.9;
  await call("observe", { ticket: chosen.ticket, loss });
}
const conflict = await call("observe", { event: "node-0", loss: 0.5 });
const unknown = await call("observe", { ticket: "none", loss: 0.5 });
const { body: status } = await call("status");
console.log(
  JSON.stringify({
    played,
    observed: status.observed,
    refused: [conflict.status, conflict.body.kind, unknown.status, unknown.body.kind],
  }),
);
