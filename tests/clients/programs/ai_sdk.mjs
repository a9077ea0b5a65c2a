// The AI SDK: the same for each of its providers.
import { Output, generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { CITY, SCHEMA, follow, getWeather, refusal, run } from "./course.mjs";
import { answer, model } from "./setup.mjs";

const ofAnthropic = model.provider.startsWith("anthropic");

await run(answer.text, {
  async stream() {
    const pieces = [];
    for await (const piece of streamText({ model, prompt: follow("story") }).textStream) pieces.push(piece);
    return pieces;
  },
  async tools() {
    const get_weather = tool({
      description: CITY.description,
      inputSchema: jsonSchema(CITY.parameters),
      execute: getWeather,
    });
    const done = streamText({ model, prompt: follow("weather"), tools: { get_weather }, stopWhen: stepCountIs(4) });
    await done.consumeStream();
    return await done.text;
  },
  async typed() {
    const output = Output.object({ schema: jsonSchema(SCHEMA) });
    const prompt = follow(ofAnthropic ? "typed-for-ai-sdk" : "typed"); // there it asks for a call of a tool of its own
    return (await generateText({ model, prompt, output })).output;
  },
  async refused() {
    const wrong = ofAnthropic ? { topK: -5 } : { temperature: 9 }; // it corrects temperatures for Anthropic itself
    const asked = generateText({ model, prompt: follow("story"), ...wrong });
    const parameter = ofAnthropic ? "top_k" : "temperature";
    return await asked.catch((error) => refusal(error.statusCode, error.responseBody, parameter));
  },
  async retry() {
    return (await generateText({ model, prompt: "Say hello." })).text;
  },
});
