// Sends one record with kafkajs over TLS and SASL, and prints "sent", or the name of the error.
//
// Its argument is JSON: bootstrap, topic, protocol, mechanism, user, password, token, ca, certificate, patience_s.
import { readFileSync } from "node:fs";
import { Kafka, logLevel } from "kafkajs";

const login = JSON.parse(process.argv[2]);

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
  logLevel: logLevel.NOTHING,
  retry: { retries: 2, initialRetryTime: 100, maxRetryTime: 500 },
});
const producer = kafka.producer({ createPartitioner: () => () => 0 });
try {
  await producer.connect();
  await producer.send({ topic: login.topic, messages: [{ value: "x" }] });
  console.log("sent");
} catch (error) {
  console.log(error.name);
} finally {
  await producer.disconnect();
}
