/** Counts the iterations of the event loop while some work runs in this process. */
export async function countTurns<T>(work: () => Promise<T>): Promise<[result: T, turns: number]> {
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  try {
    return [await work(), turns];
  } finally {
    isOver = true;
  }
}
