// A host with the official TypeScript client: signs in over a loopback callback, then answers one call a line.
// node typescript.mjs <sdk|client> <legacy|auto> <MCP address>; the link for the person goes to stderr.

import { createServer } from "node:http";
import { createInterface } from "node:readline";

const [library, mode, mcpUrl] = process.argv.slice(2);
const { Client, StreamableHTTPClientTransport, UnauthorizedError } =
  library === "sdk" ? await version1() : await import("@modelcontextprotocol/client");

const arrived = Promise.withResolvers();
const listener = createServer((request, response) => {
  response.end("Signed in.");
  arrived.resolve(new URL(request.url, "http://127.0.0.1").searchParams);
});
await new Promise((listening) => listener.listen(0, "127.0.0.1", listening));

const kept = {};
const provider = {
  redirectUrl: `http://127.0.0.1:${listener.address().port}/callback`,
  get clientMetadata() {
    return {
      client_name: `TypeScript ${library}`,
      redirect_uris: [this.redirectUrl],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      token_endpoint_auth_method: "none",
    };
  },
  clientInformation: () => kept.client,
  saveClientInformation: (client) => void (kept.client = client),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => void (kept.tokens = tokens),
  codeVerifier: () => kept.verifier,
  saveCodeVerifier: (verifier) => void (kept.verifier = verifier),
  redirectToAuthorization: (link) => console.error(`Open ${link.href}`),
};

const client = await connected();
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  const result = await (method === "tools/list" ? client.listTools(params) : client.callTool(params));
  console.log(JSON.stringify({ id, result }));
}
await client.close();
listener.close();

async function connected() {
  const first = newTransport();
  try {
    await newClient().connect(first);
    throw new Error("connected without signing in");
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
  }
  const answer = await arrived.promise;
  await first.finishAuth(library === "sdk" ? answer.get("code") : answer);
  const client = newClient();
  await client.connect(newTransport());
  return client;
}

function newClient() {
  const options = library === "sdk" ? {} : { versionNegotiation: { mode } };
  return new Client({ name: "real-clients", version: "1.0.0" }, options);
}

function newTransport() {
  return new StreamableHTTPClientTransport(new URL(mcpUrl), { authProvider: provider });
}

async function version1() {
  const modules = ["index", "streamableHttp", "auth"].map((name) => import(`@modelcontextprotocol/sdk/client/${name}.js`));
  return Object.assign({}, ...(await Promise.all(modules)));
}
