// What test files import to define tests. Mocha runs them: its processes share the files, and keep the loaded service. The runner of
// Node follows every promise of the service, which costs an eighth of the processor time.
import { mock } from 'node:test';

export { mock };

type Run = () => unknown;

/** The functions that mocha defines for the test files of its processes. */
interface Mocha {
  readonly describe: (name: string, suite: Run) => void;
  /** Without a function, the test is reported as skipped. */
  readonly it: (
    name: string,
    run?: (this: { skip: () => never; timeout: (milliseconds: number) => void }) => unknown,
  ) => void;
  readonly before: (run: Run) => void;
  readonly after: (run: Run) => void;
  readonly beforeEach: (run: Run) => void;
  readonly afterEach: (run: Run) => void;
}
const mocha = globalThis as unknown as Mocha;

export interface TestContext {
  /** Whatever it replaces is restored after the test. */
  readonly mock: typeof mock;
  /** Ends the test as skipped. */
  readonly skip: (reason: string) => never;
}
type TestFunction = (context: TestContext) => unknown;

export interface SuiteOptions {
  /** Maximum tests of the suite that run at once. */
  readonly concurrency?: number;
}
/** The suite that is being defined. */
interface Suite {
  readonly concurrency: number;
  /** Starts the tests of the suite, if they run at once. */
  readonly start: Run[];
  hasSuites: boolean;
}
let current: Suite = { concurrency: 1, start: [], hasSuites: false };

export function describe(name: string, suite: Run): void;
export function describe(name: string, options: SuiteOptions, suite: Run): void;
export function describe(name: string, options: SuiteOptions | Run, suite?: Run): void {
  const isPlain = typeof options === 'function';
  const define = isPlain ? options : suite;
  const { concurrency = 1 } = isPlain ? {} : options;
  const outer = current;
  outer.hasSuites = true;
  mocha.describe(name, () => {
    const inner: Suite = { concurrency, start: [], hasSuites: false };
    current = inner;
    define?.();
    current = outer;
    if (concurrency > 1) mocha.before(() => void startAll(inner));
  });
}

/** Starts the tests of a suite, at most as many at once as it says. */
async function startAll({ concurrency, start }: Suite): Promise<void> {
  const waiting = start.values();
  const work = async (): Promise<void> => {
    for (const run of waiting) await run();
  };
  await Promise.all(Array.from({ length: concurrency }, work));
}

export interface TestOptions {
  /** Whether this machine lacks what the test needs, or what it lacks. */
  readonly skip?: boolean | string;
  /** Milliseconds after which the test fails. */
  readonly timeout?: number;
}

export function test(name: string, run: TestFunction): void;
export function test(name: string, options: TestOptions, run: TestFunction): void;
export function test(name: string, options: TestOptions | TestFunction, run?: TestFunction): void {
  const isPlain = typeof options === 'function';
  const body = isPlain ? options : run;
  const { skip = false, timeout } = isPlain ? {} : options;
  const { concurrency, start, hasSuites } = current;
  let started: Promise<unknown> | undefined;
  if (concurrency > 1 && skip === false)
    start.push(() => {
      started = Promise.resolve().then(() => body?.({ mock, skip: notAtOnce }));
      return started.catch(() => undefined); // mocha reports the error when it comes to the test
    });
  const define = (): void => {
    if (skip !== false) return mocha.it(name);
    mocha.it(name, async function () {
      if (timeout !== undefined) this.timeout(timeout);
      if (started) return void (await started);
      let isMocked = false;
      const context: TestContext = {
        get mock() {
          isMocked = true;
          return mock;
        },
        skip: () => this.skip(),
      };
      try {
        await body?.(context);
      } finally {
        if (isMocked) mock.restoreAll();
      }
    });
  };
  // Mocha runs the tests of a suite before its suites. So that all run in the order of the file, a test after a suite gets its own.
  if (hasSuites) mocha.describe('', define);
  else define();
}

function notAtOnce(): never {
  throw new Error('A test that runs beside others cannot be skipped.');
}

export const before = (run: Run): void => mocha.before(async () => void (await run()));
export const after = (run: Run): void => mocha.after(async () => void (await run()));
export const beforeEach = (run: Run): void => mocha.beforeEach(async () => void (await run()));
export const afterEach = (run: Run): void => mocha.afterEach(async () => void (await run()));
