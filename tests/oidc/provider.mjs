// A real OpenID Connect server (oidc-provider) for tests. Commands come as JSON lines on standard input, and each is
// answered by a line on standard output.
import http from "node:http";
import readline from "node:readline";
import { generateKeyPairSync } from "node:crypto";
import { Provider } from "oidc-provider";
import { createMemoryAdapter } from "../../node_modules/oidc-provider/lib/adapters/memory_adapter.js";

const [port, back] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const adapter = createMemoryAdapter(); // all providers of this process share the grants
const people = {};
let keys = 0;
let silent = false;

const key = () => ({
  ...generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ format: "jwk" }),
  kid: `key-${++keys}`, use: "sig", alg: "RS256",
});

const made = () => {
  const provider = new Provider(issuer, {
    clients: [{
      client_id: "kgd", client_secret: "a-secret+of%the:hub", redirect_uris: [back], response_types: ["code"],
      grant_types: ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
    }],
    adapter,
    jwks: { keys: [key()] },
    cookies: { keys: ["only for tests"] },
    scopes: ["openid", "offline_access", "profile", "email", "groups"],
    claims: { openid: ["sub"], profile: ["name"], email: ["email", "email_verified"], groups: ["groups"] },
    features: { devInteractions: { enabled: true }, deviceFlow: { enabled: true } },
    ttl: { AccessToken: 600, IdToken: 600, RefreshToken: 86400, Session: 86400, Grant: 86400, Interaction: 600, DeviceCode: 600 },
    rotateRefreshToken: true,
    findAccount: (context, id) => people[id] && { accountId: id, claims: () => ({ sub: id, ...people[id] }) },
  });
  provider.on("server_error", (context, error) => process.stderr.write(`${error.stack}\n`));
  return provider.callback();
};

let handle = made();
const server = http.createServer((request, response) => silent ? undefined : handle(request, response));
server.listen(Number(port), "127.0.0.1", () => process.stdout.write("{}\n"));

const commands = {
  person: ({ id, claims }) => { people[id] = claims; },
  remove: ({ id }) => { delete people[id]; },
  rotate: () => { handle = made(); },
  silence: ({ on }) => { silent = on; },
};
readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const { command, ...rest } = JSON.parse(line);
  commands[command](rest);
  process.stdout.write("{}\n");
}).on("close", () => process.exit(0));
