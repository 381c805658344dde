// A Kafka broker in a test's hands. `odradek/vitest`, `odradek/jest` and `odradek/node` start one for a test file.

import { Node } from "./process.js";

export { ControlError } from "./process.js";

export class Broker {
  #node;

  constructor(options = {}) {
    this.#node = new Node(options);
    this.timeout = options.timeout ?? 5;
  }

  static async start(options) {
    const broker = new Broker(options);
    await broker.start();
    return broker;
  }

  async start() {
    await this.#node.start();
    return this;
  }

  get bootstrap() {
    return this.#node.bootstrap;
  }

  get controlUrl() {
    return this.#node.url;
  }

  get running() {
    return this.#node.runs;
  }

  get pid() {
    return this.#node.child?.pid;
  }

  get(path) {
    return this.#node.send("GET", path);
  }

  post(path, body = {}) {
    return this.#node.send("POST", path, body);
  }

  delete(path) {
    return this.#node.send("DELETE", path);
  }

  // -- its life

  async kill() {
    this.#node.requireProcess();
    await this.#node.kill();
  }

  async restart() {
    this.#node.requireProcess();
    await this.#node.stop();
    await this.#node.start();
  }

  awaitEnd(seconds = this.timeout) {
    return this.#node.awaitEnd(seconds);
  }

  close() {
    return this.#node.close();
  }

  async mark() {
    return (await this.get("/mark")).mark;
  }

  reset(mark) {
    return this.post("/reset", mark && { mark });
  }

  async report(since = 0) {
    if (!this.running) return `the broker does not run; its log ends with\n${this.#node.lastWords()}`;
    return (await this.get(`/report?text=true&since=${since}`)).text;
  }

  async explain(group) {
    return (await this.get(`/explain?text=true&group=${encodeURIComponent(group)}`)).text;
  }

  // -- what is in it

  async topic(name, partitions, configs) {
    await this.post("/topics", { topic: name, partitions, configs });
    return new Topic(this, name);
  }

  group(id) {
    return new Group(this, id);
  }

  transaction(id) {
    return new Transaction(this, id);
  }

  expectExactlyOnce(source, sink, { key, timeout = this.timeout } = {}) {
    return this.post("/exactly-once", { source: `${source}`, sink: `${sink}`, key, timeout });
  }

  // -- the schema registry

  async registryUrl() {
    this.#node.registryUrl = (await this.post("/registry", this.#node.registry)).url;
    return this.#node.registryUrl;
  }

  async registerSchema(subject, spec) {
    return (await this.post(`/registry/subjects/${encodeURIComponent(subject)}`, spec)).id;
  }

  // -- faults

  fault(spec) {
    return this.#set("/faults", spec);
  }

  registryFault(spec) {
    return this.#set("/registry/faults", spec);
  }

  stall(which = {}) {
    return this.#set("/stall", which);
  }

  throttle(which) {
    return this.#set("/throttle", which);
  }

  refuseConnections() {
    return this.#set("/refuse_connections");
  }

  disconnect(which = {}) {
    return this.post("/disconnect", which);
  }

  async crash(spec = {}) {
    this.#node.requireProcess();
    await this.post("/crash", spec);
  }

  async #set(path, body) {
    return new Fault(this, (await this.post(path, body)).id);
  }

  // -- time

  advance(by) {
    return this.post("/clock/advance", by);
  }

  freeze() {
    return this.post("/clock/freeze");
  }

  resume() {
    return this.post("/clock/resume");
  }
}

/** Clients take it as its name: `${topic}`. */
export class Topic {
  constructor(broker, name) {
    this.broker = broker;
    this.name = name;
  }

  toString() {
    return this.name;
  }

  #path(end) {
    return `/topics/${encodeURIComponent(this.name)}${end}`;
  }

  async produce(value, { key, headers, partition, timestamp, schema } = {}) {
    const written = schema === undefined ? content("value", value) : { json: value, schema: { id: schema } };
    const record = { ...written, ...content("key", key), headers, partition, timestamp };
    return recordOf((await this.broker.post(this.#path("/records"), { records: [record] })).records[0]);
  }

  async wait(expected = {}) {
    const { headers, ...rest } = expected;
    const body = { timeout: this.broker.timeout, headers, ...rest };
    return (await this.broker.post(this.#path("/wait"), body)).records.map(recordOf);
  }

  async expect(value, expected = {}) {
    return (await this.wait({ ...expectedValue(value), ...expected }))[0];
  }

  async records() {
    return (await this.broker.get(this.#path("/records"))).records.map(recordOf);
  }

  truncate() {
    return this.broker.post(this.#path("/truncate"));
  }

  delete() {
    return this.broker.delete(this.#path(""));
  }
}

function content(name, given) {
  if (given === undefined || given === null) return {};
  if (typeof given === "string") return { [name]: given };
  if (given instanceof Uint8Array) return { [`${name}_base64`]: Buffer.from(given).toString("base64") };
  return { [name]: JSON.stringify(given) };
}

function expectedValue(value) {
  if (value === undefined) return {};
  if (value === null) return { tombstone: true };
  return typeof value === "string" || value instanceof Uint8Array ? content("value", value) : { json: value };
}

function recordOf(answer) {
  const { topic, partition, offset, timestamp } = answer;
  const headers = Object.fromEntries(answer.headers.map((header) => [header.key, contentOf(header, "value")]));
  const value = contentOf(answer, "value");
  return {
    ...{ topic, partition, offset, timestamp, headers, value, key: contentOf(answer, "key") },
    json: () => ("json" in answer ? answer.json : JSON.parse(value)),
  };
}

/** Text, or a Buffer of what is no UTF-8. */
function contentOf(answer, name) {
  const encoded = answer[`${name}_base64`];
  return encoded === undefined ? answer[name] : Buffer.from(encoded, "base64");
}

export class Group {
  constructor(broker, id) {
    this.broker = broker;
    this.id = id;
  }

  #path(end) {
    return `/groups/${encodeURIComponent(this.id)}${end}`;
  }

  describe() {
    return this.broker.get(this.#path(""));
  }

  wait(wanted) {
    return this.broker.post(this.#path("/wait"), { timeout: this.broker.timeout, ...wanted });
  }

  async lag() {
    return (await this.broker.get(this.#path("/lag"))).total;
  }

  async committed() {
    return (await this.broker.get(this.#path("/committed"))).partitions;
  }

  rebalance() {
    return this.broker.post(this.#path("/rebalance"));
  }

  expire(member) {
    return this.broker.post(this.#path("/expire"), { member });
  }

  resetOffsets(to) {
    return this.broker.post(this.#path("/reset_offsets"), to);
  }

  configure(configs) {
    return this.broker.post(this.#path("/configs"), { configs });
  }

  deliveries() {
    return this.broker.get(this.#path("/deliveries"));
  }

  async release(which = {}) {
    return (await this.broker.post(this.#path("/release"), which)).released;
  }

  async expireLocks(which = {}) {
    return (await this.broker.post(this.#path("/expire_locks"), which)).released;
  }
}

export class Transaction {
  constructor(broker, id) {
    this.broker = broker;
    this.id = id;
  }

  #path(end) {
    return `/transactions/${encodeURIComponent(this.id)}${end}`;
  }

  describe() {
    return this.broker.get(this.#path(""));
  }

  wait(state, timeout = this.broker.timeout) {
    return this.broker.post(this.#path("/wait"), { state, timeout });
  }

  abort() {
    return this.broker.post(this.#path("/abort"));
  }

  fence() {
    return this.broker.post(this.#path("/fence"));
  }
}

export class Fault {
  constructor(broker, id) {
    this.broker = broker;
    this.id = id;
  }

  async hits() {
    return (await this.broker.get(`/faults/${this.id}`)).hits;
  }

  async requests() {
    return (await this.broker.get(`/faults/${this.id}`)).requests;
  }

  wait(n = 1, timeout = this.broker.timeout) {
    return this.broker.post(`/faults/${this.id}/wait`, { n, timeout });
  }

  remove() {
    return this.broker.delete(`/faults/${this.id}`).catch(() => undefined); // it is gone, or the broker is
  }
}
