// kafkajs' client of Confluent's registry: all three kinds, with evolution, a reference and a refused change.
//
// Its argument is the registry's URL. Each line that it prints is a name and what came of it, as JSON.
import { randomUUID } from "node:crypto";
import confluent from "@kafkajs/confluent-schema-registry";

const { SchemaRegistry, SchemaType } = confluent;
const url = process.argv[2];
const registry = new SchemaRegistry({ host: url });
const run = randomUUID().slice(0, 8);

const subject = (name) => `js-${run}-${name}`;
const tell = (name, value) => console.log(JSON.stringify([name, value]));
const record = (name, fields) => JSON.stringify({ type: "record", name, namespace: "js", fields });
const NAME = { name: "name", type: "string" };

async function register(name, type, schema, references = []) {
  return (await registry.register({ type, schema, references }, { subject: subject(name) })).id;
}

async function refusal(name, type, schema) {
  try {
    await register(name, type, schema);
    return "registered";
  } catch (error) {
    return [error.status ?? error.name, error.message];
  }
}

async function thereAndBack(id, value) {
  const bytes = await registry.encode(id, value);
  const fresh = new SchemaRegistry({ host: url }); // asks for the schema by the id in front of the bytes
  return [bytes.readInt32BE(1) === id, await fresh.decode(bytes)];
}

const first = await register("avro", SchemaType.AVRO, record("User", [NAME]));
tell("avro", await thereAndBack(first, { name: "Anna" }));
tell("again", (await register("avro", SchemaType.AVRO, record("User", [NAME]))) === first);
const grown = record("User", [NAME, { name: "age", type: ["null", "int"], default: null }]);
const second = await register("avro", SchemaType.AVRO, grown);
tell("latest", (await registry.getLatestSchemaId(subject("avro"))) === second);
tell("earlier", (await registry.getRegistryId(subject("avro"), 1)) === first);
tell("avro refused", await refusal("avro", SchemaType.AVRO, record("User", [{ name: "number", type: "int" }])));

const refers = [{ name: "js.User", subject: subject("avro"), version: 1 }];
const order = await register("order", SchemaType.AVRO, record("Order", [{ name: "by", type: "js.User" }]), refers);
tell("avro reference", await thereAndBack(order, { by: { name: "Anna" } }));

const person = { type: "object", properties: { name: { type: "string" } }, additionalProperties: false };
const json = await register("json", SchemaType.JSON, JSON.stringify(person));
tell("json", await thereAndBack(json, { name: "Bo" }));
const changed = { ...person, properties: { name: { type: "integer" } } };
tell("json refused", await refusal("json", SchemaType.JSON, JSON.stringify(changed)));

const proto = (type) => `syntax = "proto3"; package js; message User { ${type} name = 1; }`;
const protobuf = await register("proto", SchemaType.PROTOBUF, proto("string"));
tell("protobuf", await thereAndBack(protobuf, { name: "Cy" }));
tell("protobuf refused", await refusal("proto", SchemaType.PROTOBUF, proto("int32")));
