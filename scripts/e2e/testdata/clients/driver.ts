// Runs one command of the client and prints JSON lines: scripts/e2e/clients_test.go.
import { APIError, Client, RunError, SignatureError, UnreachableError, verifyWebhook } from "ao-client";

declare const process: {
  argv: string[];
  env: Record<string, string | undefined>;
  stdin: AsyncIterable<Uint8Array>;
};

const client = new Client({ retryFor: Number(process.env["RETRY_FOR"] ?? 60) });
const [command, ...args] = process.argv.slice(2) as [string, string, string, string];
const say = (members: object): void => console.log(JSON.stringify(members));

async function main(): Promise<void> {
  switch (command) {
    case "start":
      say({ run: (await client.start({ agent_name: args[0], parameters: JSON.parse(args[1]) }, { key: args[2] })).run_id });
      break;
    case "run":
      say({ data: (await client.run({ agent_name: args[0], parameters: JSON.parse(args[1]) })).result?.result_data });
      break;
    case "bad":
      await client.start({ agent_name: "echo", timeout_seconds: -1 });
      break;
    case "wait": {
      const run = await client.wait(args[0]);
      say({ status: run.status, data: run.result?.result_data });
      break;
    }
    case "events":
      for await (const event of client.events(args[0], { after: args[1] })) {
        const content = event.document["content"] as { text: string }[] | undefined;
        say({ type: event.type, text: content?.[0]?.text ?? "", position: event.position });
      }
      say({ type: "end" });
      break;
    case "verify": {
      let text = "";
      for await (const chunk of process.stdin) text += new TextDecoder().decode(chunk);
      const sent = JSON.parse(text) as { body: string; headers: Record<string, string> };
      const hook = await verifyWebhook(new TextEncoder().encode(sent.body), sent.headers, ...args);
      say({ id: hook.id, type: hook.type, run: hook.run.run_id });
    }
  }
}

try {
  await main();
} catch (e) {
  if (e instanceof APIError) say({ error: "api", status: e.status, code: e.code, field: e.field, message: e.message });
  else if (e instanceof RunError) say({ error: "run", code: e.code, message: e.message });
  else if (e instanceof UnreachableError) say({ error: "unreachable" });
  else if (e instanceof SignatureError) say({ error: "signature" });
  else throw e;
}
