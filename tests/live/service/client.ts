// Bodies that a TypeScript client must be able to write, and fields that it must be able to read.
// `make openapi-check` compiles this file against the types generated from the OpenAPI document.
import type { components } from "./api";

type Schemas = components["schemas"];

export const choices: Schemas["Choose"][] = [
  {},
  { event: "order-17" },
  { allowed: ["tea"], event: "order-17" },
];
export const observations: Schemas["Observe"][] = [
  { event: "order-17", loss: 0.2 },
  { ticket: "db76ee60dd6f-1", reward: 1 },
  { event: "order-17", loss: { tea: 0.1, cocoa: 0.4 } },
];

export function summary(chosen: Schemas["Chosen"], status: Schemas["Status"]): string {
  const epsilon: number | null = status.epsilon;
  const counted: Schemas["Observed"] = { counted: true };
  return `${chosen.arm} instead of ${chosen.would ?? chosen.arm}: ${epsilon} ${counted.counted}`;
}

// @ts-expect-error: optional strings of responses are absent, never null
export const never: Schemas["Chosen"] = { ticket: "a", arm: "b", probability: 1, would: null };
