// Measures Vitrine beside itself: rows whose goal is a ratio to another row, or a time.
import type { Equipment } from './measure.ts';
import { measure } from './measure.ts';
import type { Pair } from './pairs.ts';
import type { Measurement } from './report.ts';
import { compile, startServer, VITRINE } from './servers.ts';

export interface MeasuredPair extends Pick<Pair, 'work' | 'goal'> {
  /** One of each round. */
  readonly row: readonly Measurement[];
  readonly base: readonly Measurement[];
}

/** Each round runs both rows of every pair; which one comes first alternates. */
export async function measurePairs(
  pairs: readonly Pair[],
  directory: string,
  equipment: Equipment,
  { rounds, seconds }: { readonly rounds: number; readonly seconds: number },
): Promise<MeasuredPair[]> {
  const registry = await compile('registry', 'registry.ts', directory);
  const [file = ''] = registry.parameters;
  const program = { ...VITRINE, environment: { RESOURCES: file } };
  const { database } = equipment;
  // The first start makes the tables.
  await (await startServer(program, database.url)).stop();
  await database.fillPairs(pairs.some(({ base }) => base.name.startsWith('page of')));
  const server = await startServer(program, database.url);
  try {
    const measured = pairs.map(({ work, goal }) => ({
      work,
      goal,
      row: [] as Measurement[],
      base: [] as Measurement[],
    }));
    for (let round = -1; round < rounds; round += 1) {
      for (const [index, pair] of pairs.entries()) {
        const order = ['row', 'base'] as const;
        for (const which of (round + index) % 2 === 0 ? order : order.toReversed()) {
          const time = round < 0 ? seconds / 2 : seconds;
          const measurement = await measure(equipment, pair[which], server, time);
          if (round >= 0) measured[index]?.[which].push(measurement);
        }
      }
      await database.restore();
    }
    return measured;
  } finally {
    await server.stop();
  }
}
