import type {
  Acquired,
  Connections,
  CrashSpec,
  Duration,
  Expected,
  FaultSpec,
  GroupWait,
  Offsets,
  RegistryFaultSpec,
  SchemaSpec,
} from "./bodies.js";

export type * from "./bodies.js";

export interface Options {
  /** Kafka's names in server.properties. */
  settings?: Record<string, string | number | boolean>;
  /** "test" by default, "dev" or "kafka". */
  profile?: string;
  /** How long the broker may take to start, in seconds: 30 by default. */
  startTimeout?: number;
  /** How long waits last that have no time of their own, in seconds: 5 by default. */
  timeout?: number;
}

export type Json = Record<string, any>;
export type Content = string | Uint8Array | null;

export interface Record_ {
  topic: string;
  partition: number;
  offset: number;
  timestamp: number;
  /** Text, or a Buffer of what is no UTF-8; null of a tombstone. */
  key: string | Buffer | null;
  value: string | Buffer | null;
  headers: Record<string, string | Buffer | null>;
  /** The value that is JSON, or that its schema decodes. */
  json(): any;
}

/** The broker refused something, or a wait was in vain (status 408). */
export class ControlError extends Error {
  status: number;
  parameter?: string;
}

export class Broker {
  constructor(options?: Options);
  static start(options?: Options): Promise<Broker>;
  timeout: number;
  /** host:port for a client's brokers. */
  readonly bootstrap: string;
  readonly controlUrl: string;
  readonly running: boolean;
  readonly pid?: number;
  start(): Promise<this>;
  /** SIGKILL. */
  kill(): Promise<void>;
  /** The same data at the same address; it is stopped first if it runs. */
  restart(): Promise<void>;
  awaitEnd(seconds?: number): Promise<void>;
  close(): Promise<void>;
  /** Asks the control interface: the path is what follows /control. */
  get(path: string): Promise<Json>;
  post(path: string, body?: object): Promise<Json>;
  delete(path: string): Promise<Json>;
  mark(): Promise<Json>;
  /** Deletes all that is not in the mark. */
  reset(mark?: Json): Promise<Json>;
  /** Topics, groups, open transactions, the last requests and warnings, as a text. */
  report(since?: number): Promise<string>;
  /** Why a consumer of this group gets nothing, and what to do. */
  explain(group: string): Promise<string>;
  /** Makes a topic unless it exists. */
  topic(name: string, partitions?: number, configs?: Record<string, unknown>): Promise<Topic>;
  group(id: string): Group;
  transaction(id: string): Transaction;
  /** Waits until each record of the source has led to exactly one committed record of the sink. */
  expectExactlyOnce(source: Topic | string, sink: Topic | string, how?: { key?: string; timeout?: number }): Promise<Json>;
  /** Where the schema registry is, which listens from now on. */
  registryUrl(): Promise<string>;
  /** Registers a schema, and gives its id: of values the subject is TOPIC-value. */
  registerSchema(subject: string, spec: SchemaSpec): Promise<number>;
  fault(spec: FaultSpec): Promise<Fault>;
  /** Does something to the calls of the schema registry's clients. */
  registryFault(spec: RegistryFaultSpec): Promise<Fault>;
  stall(which?: Connections): Promise<Fault>;
  throttle(which: Connections): Promise<Fault>;
  refuseConnections(): Promise<Fault>;
  disconnect(which?: { client_id?: string; listener?: string }): Promise<Json>;
  /** Ends the broker as a power failure does; awaitEnd and restart follow. */
  crash(spec?: CrashSpec): Promise<void>;
  /** Moves the broker's clock, and returns when all that was due has run. */
  advance(by: Duration): Promise<Json>;
  freeze(): Promise<Json>;
  resume(): Promise<Json>;
}

export class Topic {
  readonly broker: Broker;
  readonly name: string;
  toString(): string;
  /** What is no string, bytes or null is written as JSON; with the id of a schema the value is encoded by that. */
  produce(
    value: unknown,
    more?: { key?: Content; headers?: Record<string, string>; partition?: number; timestamp?: number; schema?: number },
  ): Promise<Record_>;
  /** Waits for a record like this: an object is what its JSON has at least. */
  expect(value?: unknown, more?: Expected): Promise<Record_>;
  wait(expected?: Expected): Promise<Record_[]>;
  /** Those that are there now, without those of open and aborted transactions. */
  records(): Promise<Record_[]>;
  truncate(): Promise<Json>;
  delete(): Promise<Json>;
}

export class Group {
  readonly id: string;
  describe(): Promise<Json>;
  /** Until all of it is so at the same time. */
  wait(wanted: GroupWait): Promise<Json>;
  /** null if it is not known. */
  lag(): Promise<number | null>;
  committed(): Promise<Json[]>;
  rebalance(): Promise<Json>;
  expire(member?: string): Promise<Json>;
  resetOffsets(to: Offsets): Promise<Json>;
  configure(configs: Record<string, unknown>): Promise<Json>;
  deliveries(): Promise<Json>;
  release(which?: Acquired): Promise<number>;
  expireLocks(which?: Acquired): Promise<number>;
}

export class Transaction {
  readonly id: string;
  describe(): Promise<Json>;
  wait(state: string, timeout?: number): Promise<Json>;
  abort(): Promise<Json>;
  fence(): Promise<Json>;
}

export class Fault {
  readonly id: string;
  hits(): Promise<number>;
  requests(): Promise<Json[]>;
  wait(n?: number, timeout?: number): Promise<Json>;
  /** Harmless if it is gone. */
  remove(): Promise<Json | undefined>;
}
