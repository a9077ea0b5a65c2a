// OpenAI's SDK for Node: chat completions, and responses where the second argument says so.
import { CITY, SCHEMA, each, follow, getWeather, refusal, run } from "./course.mjs";
import { answer, client } from "./setup.mjs";

const model = "tiny";
const says = (script) => [{ role: "user", content: follow(script) }];
const format = { name: "weather", strict: true, schema: SCHEMA };

const callable = [{ type: "function", function: { ...CITY, function: getWeather, parse: JSON.parse } }];

const chat = {
  async stream() {
    const pieces = [];
    for await (const chunk of await client.chat.completions.create({ model, messages: says("story"), stream: true }))
      if (chunk.choices[0]?.delta?.content) pieces.push(chunk.choices[0].delta.content);
    return pieces;
  },
  async tools() {
    return await client.chat.completions.runTools({ model, messages: says("weather"), tools: callable }).finalContent();
  },
  async typed() {
    const response_format = { type: "json_schema", json_schema: format };
    const done = await client.chat.completions.create({ model, messages: says("typed"), response_format });
    return JSON.parse(done.choices[0].message.content);
  },
  async refused() {
    const asked = client.chat.completions.create({ model, messages: says("story"), temperature: 9 });
    return await asked.catch((error) => refusal(error.status, error.param));
  },
  async helpers() {
    const asked = { model, messages: says("weather"), tools: callable, stream: true };
    return await each({
      stream: () => client.chat.completions.stream({ model, messages: says("story") }).finalContent(),
      streamed_tools: () => client.chat.completions.runTools(asked).finalContent(),
    });
  },
  async retry() {
    const done = await client.chat.completions.create({ model, messages: [{ role: "user", content: "Say hello." }] });
    return done.choices[0].message.content;
  },
};

const responses = {
  async stream() {
    const pieces = [];
    for await (const event of await client.responses.create({ model, input: follow("story"), stream: true }))
      if (event.type === "response.output_text.delta") pieces.push(event.delta);
    return pieces;
  },
  async tools() {
    const input = says("weather");
    for (let turn = 0; turn < 4; turn++) {
      const done = await client.responses.create({ model, input, tools: [{ type: "function", strict: true, ...CITY }] });
      const calls = done.output.filter((item) => item.type === "function_call");
      if (!calls.length) return done.output_text;
      input.push(...done.output);
      for (const { call_id, arguments: text } of calls)
        input.push({ type: "function_call_output", call_id, output: getWeather(JSON.parse(text)) });
    }
  },
  async typed() {
    const text = { format: { type: "json_schema", ...format } };
    return JSON.parse((await client.responses.create({ model, input: follow("typed"), text })).output_text);
  },
  async refused() {
    const asked = client.responses.create({ model, input: follow("story"), temperature: 9 });
    return await asked.catch((error) => refusal(error.status, error.param));
  },
  async helpers() {
    return await each({
      stream: async () => (await client.responses.stream({ model, input: follow("story") }).finalResponse()).output_text,
    });
  },
  async retry() {
    return (await client.responses.create({ model, input: "Say hello." })).output_text;
  },
};

const text = answer.output_text ?? answer.choices[0].message.content;
await run(text, "output_text" in answer ? responses : chat);
