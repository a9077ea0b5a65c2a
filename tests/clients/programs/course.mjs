// Runs a client's features one after the other, and prints what each saw, a JSON object a line; as course.py does.
import { createInterface } from "node:readline";

export const CITY = {
  name: "get_weather",
  description: "The weather of a city, in degrees.",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false },
};
export const SCHEMA = {
  type: "object",
  properties: { city: { type: "string" }, celsius: { type: "integer" } },
  required: ["city", "celsius"],
  additionalProperties: false,
};
export const follow = (script) => `Follow the script ${script}.`;
export const getWeather = ({ city }) => {
  if (city !== "Paris") throw new Error(`another city: ${city}`);
  return "21";
};
export const refusal = (status, text, parameter = "temperature") => [status, text.includes(parameter)];


/** Runs helpers of a library one after the other. Returns what each saw, or how it failed. */
export async function each(helpers) {
  const seen = {};
  for (const [name, helper] of Object.entries(helpers))
    seen[name] = await helper().catch((error) => String(error).slice(0, 500));
  return seen;
}

async function tell(name, feature) {
  const began = performance.now();
  let told;
  try {
    told = { seen: await feature() };
  } catch (error) {
    told = { error: String(error).slice(0, 2000), trace: String(error.stack).slice(0, 3000) };
  }
  console.log(JSON.stringify({ feature: name, seconds: Math.round((performance.now() - began) / 10) / 100, ...told }));
}

export async function run(text, features) {
  await tell("text", () => text);
  const lines = createInterface({ input: process.stdin });
  for (const [name, feature] of Object.entries(features)) {
    if (name === "retry") {
      const line = new Promise((done) => lines.once("line", done));
      console.log(JSON.stringify({ ready: name }));
      await line;
    }
    await tell(name, feature);
  }
  lines.close();
  process.exit(0);
}
