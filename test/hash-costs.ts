// Tests log in so often that the services of their processes hash at the lowest costs. Tests that are about hashing import
// `describe` and `test` from here, and get the real costs.
import { CURRENT_COSTS } from '../src/resources/users/password-hashing.ts';
import { after, before, describe as describeAny, test as testAny, type TestContext } from 'node:test';

const REAL_COSTS = { ...CURRENT_COSTS };
export const CHEAP_COSTS = { memoryCost: 8, timeCost: 1, parallelism: 1 };

const use = (costs: object): void => void Object.assign(CURRENT_COSTS, costs);
use(CHEAP_COSTS);

/** A suite whose services hash at the real costs. */
export function describe(name: string, suite: () => void): void {
  describeAny(name, () => {
    before(() => use(REAL_COSTS));
    suite();
    after(() => use(CHEAP_COSTS));
  });
}

/** A test whose services hash at the real costs. */
export function test(name: string, run: (context: TestContext) => unknown): void {
  testAny(name, async (context) => {
    const outside = { ...CURRENT_COSTS };
    use(REAL_COSTS);
    try {
      await run(context);
    } finally {
      use(outside);
    }
  });
}
