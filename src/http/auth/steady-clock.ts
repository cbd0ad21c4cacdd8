// The clock for what expires in this process. A step of the system's clock does not change it.

/** Its times mean nothing in other processes, which get durations instead. An object, so that tests can move the clock. */
export const steadyClock = {
  /** Milliseconds, as of `performance.now`. */
  now: (): number => performance.now(),
};
