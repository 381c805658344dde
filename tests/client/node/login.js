// Sends one record with kafkajs over TLS and SASL, and prints "sent", or the name of the error.
//
// Its argument is JSON: bootstrap, topic, protocol, mechanism, user, password, token, ca, certificate, patience_s.
// With a second argument, it sends a record for each line of the input by the same client, and prints each outcome.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { Kafka, logLevel } from "kafkajs";

const login = JSON.parse(process.argv[2]);
const inSession = process.argv.length > 3;

function ssl() {
  if (!login.protocol.endsWith("SSL")) return undefined;
  const pem = login.certificate ? readFileSync(login.certificate) : undefined;
  return { servername: "localhost", ca: [readFileSync(login.ca)], cert: pem, key: pem };
}

function sasl() {
  if (!login.mechanism) return undefined;
  const mechanism = login.mechanism.toLowerCase();
  if (mechanism === "oauthbearer") return { mechanism, oauthBearerProvider: async () => ({ value: login.token }) };
  return { mechanism, username: login.user, password: login.password };
}

const kafka = new Kafka({
  clientId: "kafkajs",
  brokers: [login.bootstrap],
  ssl: ssl(),
  sasl: sasl(),
  reauthenticationThreshold: 2000,
  logLevel: logLevel.NOTHING,
  retry: { retries: inSession ? 20 : 2, initialRetryTime: 100, maxRetryTime: 500 },
});
const producer = kafka.producer({ createPartitioner: () => () => 0 });

async function send(value) {
  try {
    await producer.connect();
    await producer.send({ topic: login.topic, messages: [{ value }] });
    return "sent";
  } catch (error) {
    return error.type ?? error.name;
  }
}

try {
  if (!inSession) console.log(await send("x"));
  else for await (const line of createInterface({ input: process.stdin })) console.log(await send(line));
} finally {
  await producer.disconnect();
}
