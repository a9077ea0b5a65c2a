// The AI SDK: the same for each of its providers.
import { Output, generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { CITY, SCHEMA, follow, getWeather, refusal, run } from "./course.mjs";
import { answer, model } from "./setup.mjs";

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
    return (await generateText({ model, prompt: follow("typed"), output })).output;
  },
  async refused() {
    const asked = generateText({ model, prompt: follow("story"), temperature: 9 });
    return await asked.catch((error) => refusal(error.statusCode, error.message + (error.responseBody ?? "")));
  },
  async retry() {
    return (await generateText({ model, prompt: "Say hello." })).text;
  },
});
