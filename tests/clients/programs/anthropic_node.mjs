// Anthropic's SDK for Node.
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";
import { jsonSchemaOutputFormat } from "@anthropic-ai/sdk/helpers/json-schema";
import { CITY, SCHEMA, each, follow, getWeather, refusal, run } from "./course.mjs";
import { answer, client } from "./setup.mjs";

const model = "tiny";
const max_tokens = 500;
const asked = (script) => ({ model, max_tokens, messages: [{ role: "user", content: follow(script) }] });
const text = (message) => message.content.map((block) => block.text ?? "").join("");

const { name, description, parameters: inputSchema } = CITY;
const callable = { ...asked("weather"), tools: [betaTool({ name, description, inputSchema, run: getWeather })] };
const streamed = async (messages) => text(await messages.stream(asked("story")).finalMessage());

async function streamTools() {
  let last;
  for await (const turn of client.beta.messages.toolRunner({ ...callable, stream: true })) last = await turn.finalMessage();
  return text(last);
}

await run(text(answer), {
  async stream() {
    const pieces = [];
    const stream = client.messages.stream(asked("story")).on("text", (piece) => pieces.push(piece));
    await stream.finalMessage();
    return pieces;
  },
  async tools() {
    const tools = [{ name: CITY.name, description: CITY.description, input_schema: CITY.parameters }];
    const request = { ...asked("weather"), tools };
    for (let turn = 0; turn < 4; turn++) {
      const message = await client.messages.stream(request).finalMessage();
      if (message.stop_reason !== "tool_use") return text(message);
      const content = message.content
        .filter((block) => block.type === "tool_use")
        .map((block) => ({ type: "tool_result", tool_use_id: block.id, content: getWeather(block.input) }));
      request.messages.push({ role: "assistant", content: message.content }, { role: "user", content });
    }
  },
  async typed() {
    const output_config = { format: { type: "json_schema", schema: SCHEMA } };
    return JSON.parse(text(await client.messages.create({ ...asked("typed"), output_config })));
  },
  async refused() {
    const refusing = client.messages.create({ ...asked("story"), temperature: 9 });
    return await refusing.catch((error) => refusal(error.status, error.message));
  },
  async helpers() {
    const output_config = { format: jsonSchemaOutputFormat(SCHEMA) };
    return await each({
      parse: async () => (await client.messages.parse({ ...asked("typed"), output_config })).parsed_output,
      stream: () => streamed(client.messages),
      beta_stream: () => streamed(client.beta.messages),
      tool_runner: async () => text(await client.beta.messages.toolRunner(callable)),
      streamed_tool_runner: streamTools,
    });
  },
  async retry() {
    return text(await client.messages.create({ model, max_tokens, messages: [{ role: "user", content: "Say hello." }] }));
  },
});
