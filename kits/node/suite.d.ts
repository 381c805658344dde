import type { Broker, Options } from "./index.js";

/**
 * A broker for this test file, from its first test on: what a test makes is gone after it, faults are removed, and the
 * clock is reset. Call it once, outside of tests.
 */
export function useOdradek(options?: Options): Broker;
