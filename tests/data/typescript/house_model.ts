// The model that the studio uses before it has one of its own: an OpenAI-compatible server that follows a rule.
// node house_model.js; it prints its port. It follows the news in four of five answers and guesses otherwise.
import { createServer } from "node:http";

interface ChatRequest {
  model: string;
  messages: { role: string; content: string }[];
}

let seed = 1;
function random(): number {
  seed = (seed * 1103515245 + 12345) % 2147483648;
  return seed / 2147483648;
}

const server = createServer((request, response) => {
  let text = "";
  request.on("data", (part: Buffer) => (text += part.toString()));
  request.on("end", () => {
    const asked = JSON.parse(text) as ChatRequest;
    const prompt = asked.messages.at(-1)?.content ?? "";
    const followed = prompt.includes("news up") ? "BUY" : prompt.includes("news down") ? "SELL" : "HOLD";
    const content = random() < 0.8 ? followed : (["BUY", "SELL", "HOLD"][Math.floor(random() * 3)] ?? "HOLD");
    const body = {
      id: "chatcmpl-house", object: "chat.completion", created: Math.floor(Date.now() / 1000), model: asked.model,
      choices: [{ index: 0, message: { role: "assistant", content, refusal: null }, finish_reason: "stop", logprobs: null }],
      usage: { prompt_tokens: 20, completion_tokens: 1, total_tokens: 21 },
    };
    response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(body));
  });
});
server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  console.log(typeof address === "object" && address !== null ? address.port : 0);
});
