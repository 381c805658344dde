import { after, afterEach, before, beforeEach } from "node:test";
import { suite } from "./suite.js";

const failed = (context) => Boolean(context?.error);

export function useOdradek(options) {
  return suite({ beforeAll: before, beforeEach, afterEach, afterAll: after, failed }, options);
}
