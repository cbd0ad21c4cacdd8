// Decides which statement gets an exclusive connection next.
import { OVERLOADED, RECORD_BUSY, TOO_MANY, type Problem } from '../../errors.ts';
import { ClientPresence } from '../client-presence.ts';
import { HeavyStatements } from './heavy-statements.ts';
import { LoopClock } from './loop-clock.ts';
import { ClientGone, SERVICE, type Requester } from './requester.ts';
import { ATTEMPT, classify, isVaried, CHEAP_RUN, type Shape } from '../statement-shapes.ts';
import { increment } from '../counts.ts';
import { SlowClients } from './slow-clients.ts';
import type { ClassQueue, QueueClient, WaitingStatement, Demand } from './class-queue.ts';
import { ClassQueues, type ClassState, type DatabaseLimits } from './class-queues.ts';
import { RunningStatements, type RunningStatement } from './running-statements.ts';
import { LOST_AFTER, mustMove, READ_CLASSES, type WorkClass } from './work-class.ts';

/** Milliseconds that a statement may wait for a connection. A longer expected wait is refused at once. */
const MAX_WAIT = 2_000;
/** Maximum waiting statements of one class, whatever the expected wait. */
const MAX_WAITING = 1_000;
/** Maximum waiting reads of one suspect client. Cooldowns make its waits longer than the mean duration says. */
const MAX_WAITING_OF_SUSPECT = 8;

/** An anonymous client whose read unexpectedly takes this long (milliseconds) may hide its cost on purpose. */
const SUSPICIOUS = 1_000;
/** Milliseconds since the last answer for which the database counts as lively. */
const LIVELY = 2_000;

/** For a statement that PostgreSQL has not ended, the cooldown is as long as if the process had been busy for a quarter of it. */
const BUSY_IF_ENDLESS = 0.25;

/** Classes in which an anonymous client may be in a cooldown. */
const COOLDOWN_CLASSES: readonly WorkClass[] = [...READ_CLASSES, 'slow'];

/**
 * Each class has its share of the connections. Within a class, clients get equal time, so that a client with many statements
 * waits behind itself.
 */
export class Scheduler {
  readonly #slowClients: SlowClients;
  readonly #presence: ClientPresence;
  readonly #queues: ClassQueues;
  readonly #running: RunningStatements;
  readonly #heavy: HeavyStatements;
  /** When a statement was last answered (milliseconds of `performance.now`). */
  #answeredAt = -Infinity;
  /** Checks waiting and running statements: a timer for each would cost more than most of them. */
  readonly clock = new LoopClock(() => {
    this.#refuseLate();
    this.#running.endAttempts(this.clock.now());
    this.#running.endLongWrites(this.clock.now());
    this.#running.endFurtherSlow();
    this.#running.liftWeights(this.clock.now());
    if (this.#running.moveOverruns(this.clock.now())) this.#reclassify();
    this.#queues.startNext();
  });

  constructor(
    presence = new ClientPresence(),
    heavy = new HeavyStatements(presence),
    { processes = 1, slowClients = new SlowClients() }: Partial<DatabaseLimits> = {},
  ) {
    this.#presence = presence;
    this.#slowClients = slowClients;
    this.#queues = new ClassQueues(slowClients, heavy, processes);
    this.#running = new RunningStatements(this.#queues, slowClients, heavy);
    slowClients.onCooldownEnd = this.startNext;
    slowClients.onProlonged = (key) => this.#refuseCoolingDown(key);
    this.#heavy = heavy;
  }

  get state(): Readonly<Record<WorkClass, ClassState>> {
    return this.#queues.state;
  }

  /**
   * The class of a read. Reads of suspect clients are isolated, whatever they have cost other clients. A shape that is costly
   * only with some values is tried briefly, so that no client can make it slow for others.
   */
  classOf(shape: Shape, { key, clientKind }: QueueClient): WorkClass {
    const name = classify(shape);
    if (name === 'slow') return isVaried(shape) && this.#slowClients.mayAttempt(key) ? 'attempt' : 'slow';
    return clientKind === 'anonymous' && this.#slowClients.isSuspect(key) ? 'trial' : name;
  }

  /**
   * Gives a statement its connection: at once, or resolves when it may begin. The caller must then call `leave`.
   * @param shape only for reads, which count as slow when they take long
   * @param since when the statement began to wait, also in another class
   * @returns undefined for a read that turned out to belong to another class while it waited
   * @throws Problem 503, or 429 for a client whose own statements are the reason, at once where the wait would be too long;
   * ClientGone when the client disconnects while it waits
   */
  enter(
    name: WorkClass,
    requester: Requester,
    shape?: Shape,
    since?: number,
    demand: Demand = {},
  ): RunningStatement | Promise<RunningStatement | undefined> {
    const queue = this.#queues.of[name];
    const now = performance.now();
    if (requester !== SERVICE) this.#presence.note(requester.key, now);
    const caller = this.#callerOf(queue, requester, demand);
    const mayStart = this.#queues.mayStart(queue, caller);
    if (mayStart && queue.waiting === 0) return this.#begin(queue, caller, shape);
    // Those that wait may be held up by themselves, such as writes of one record, while this one starts at once.
    const problem = mayStart ? undefined : this.#refusal(queue, caller, shape?.mean ?? shape?.cost);
    if (!problem) return this.#wait(queue, requester, caller, shape, since ?? now);
    if (name === 'slow' && problem === OVERLOADED && this.#queues.mayTryInstead(caller))
      return this.#begin(this.#queues.of.attempt, { ...caller, isTriedInstead: true }, shape);
    this.#heavy.leave(caller.key, caller);
    queue.refused += 1;
    return Promise.reject(problem);
  }

  /** A copy of the client as it is now: a requester's key and kind change when the user is authenticated. */
  #callerOf({ name }: ClassQueue, { key, clientKind }: Requester, demand: Demand): QueueClient {
    const isPreferred = name === 'attempt' && this.#slowClients.isPreferred(key);
    return { key, clientKind, isPreferred, ...demand };
  }

  #begin(queue: ClassQueue, caller: QueueClient, shape: Shape | undefined): RunningStatement {
    const entry = this.#queues.enter(queue, caller, shape?.mean);
    const since = this.clock.now();
    const running: RunningStatement = {
      caller,
      isAnonymous: caller.clientKind === 'anonymous',
      shape,
      since,
      sentAt: since,
      initialQueue: queue,
      queue,
      entry,
      weight: undefined,
      tookTooLong: false,
      watched: undefined,
    };
    this.#running.add(running);
    return running;
  }

  /**
   * Takes back the connection of a statement that has ended; of an abandoned one, once PostgreSQL has stopped it.
   * @param isComplete whether it was answered
   */
  leave(running: RunningStatement, isComplete = false): void {
    const { shape, caller, since, sentAt, initialQueue, queue, isAnonymous, entry } = running;
    const milliseconds = Math.max(0, this.clock.now() - sentAt);
    const held = sentAt < Infinity ? milliseconds : this.clock.now() - since; // the next may wait as long
    const [isAttempt, isInstead] = [this.#running.remove(running), caller.isTriedInstead === true];
    const isWasted = isAttempt && !isComplete && (isInstead || milliseconds >= CHEAP_RUN);
    if (isWasted) this.#slowClients.failAttempt(caller.key, isInstead);
    else if (isAttempt && isComplete) this.#slowClients.passAttempt(caller.key);
    const isTooSlow = (isWasted || running.tookTooLong) && !(isInstead && milliseconds < 2 * ATTEMPT);
    const isSlow = queue.name === 'slow';
    const hasOverrun = isSlow && queue !== initialQueue;
    const giveBack = (): void => {
      this.#queues.leave(queue, caller, held, entry);
      if (hasOverrun) increment(this.#slowClients.overruns, caller.key, -1);
    };
    if (running.stopped) void running.stopped.then(giveBack).then(this.startNext);
    else giveBack();
    const now = performance.now();
    if (milliseconds < LOST_AFTER && isComplete) this.#answeredAt = now;
    // PostgreSQL cannot cancel every statement. If it answers others, this is probably one of those, or its connection was lost.
    const isUncancelable =
      milliseconds >= LOST_AFTER && shape !== undefined && now - this.#answeredAt < LIVELY;
    if (isAnonymous && isUncancelable) this.#coolDown(running, milliseconds, false, BUSY_IF_ENDLESS);
    else if (isAnonymous && milliseconds < LOST_AFTER && (isSlow || isTooSlow))
      this.#coolDown(running, milliseconds, hasOverrun && milliseconds >= SUSPICIOUS);
    if (shape && mustMove(initialQueue.name, this.classOf(shape, caller))) this.#reclassify();
    this.#queues.startNext();
  }

  /** Starts waiting statements, after something else than a statement of a class has ended. */
  readonly startNext = (): void => this.#queues.startNext();

  /** Runs some work between `enter` and `leave`. */
  async run<T>(
    name: WorkClass,
    requester: Requester,
    work: (running: RunningStatement | undefined) => Promise<T>,
    demand?: Demand,
  ): Promise<T> {
    const entered = this.enter(name, requester, undefined, undefined, demand);
    const running = entered instanceof Promise ? await entered : entered;
    let isComplete = false;
    try {
      const result = await work(running);
      isComplete = true;
      return result;
    } finally {
      if (running) this.leave(running, isComplete);
    }
  }

  close(): void {
    this.clock.close();
  }

  #coolDown(
    { caller: { key }, utilization }: RunningStatement,
    milliseconds: number,
    isSuspect: boolean,
    busy = utilization ? performance.eventLoopUtilization(utilization).utilization : 1,
  ): void {
    this.#slowClients.coolDown(key, milliseconds, busy, isSuspect);
    if (isSuspect) this.#slowClients.markSuspect(key);
    this.#refuseCoolingDown(key);
  }

  /** Refuses a client's statements at once that could not start before `MAX_WAIT`. */
  #refuseCoolingDown(key: string): void {
    const starts = performance.now() + this.#slowClients.cooldownOf(key);
    for (const name of COOLDOWN_CLASSES) {
      if (!this.#slowClients.isCoolingDown(key, name)) continue;
      const queue = this.#queues.of[name];
      let before = 0;
      queue.refused += queue.removeWhere(
        ({ caller, since }) => {
          if (caller.key !== key) return false;
          const isLate = starts + before * queue.meanOf(caller) > since + MAX_WAIT;
          if (!isLate) before += 1;
          return isLate;
        },
        () => TOO_MANY,
      );
    }
  }

  #wait(
    queue: ClassQueue,
    requester: Requester,
    caller: QueueClient,
    shape: Shape | undefined,
    since: number,
  ): Promise<RunningStatement | undefined> {
    const { key } = caller;
    requester.pause();
    const waiting = queue.queueOf(caller);
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        stopListening();
        this.#heavy.leave(key, caller);
      };
      const end = (error?: Error): void => {
        leave();
        if (error) reject(error);
        else resolve(undefined);
      };
      const start = (): void => {
        leave();
        resolve(this.#begin(queue, caller, shape));
      };
      const statement: WaitingStatement = { caller, shape, since, start, end };
      waiting.push(key, statement);
      const stopListening = requester.onGone(() => {
        if (!waiting.remove(key, statement)) return;
        leave();
        reject(new ClientGone());
      });
      // All others that wait may be at their clients' limits, while a connection is free for this one.
      this.#queues.startNext();
    });
  }

  #refusal(queue: ClassQueue, caller: QueueClient, cost?: number): Problem | undefined {
    const { key, clientKind } = caller;
    const isSuspect =
      clientKind === 'anonymous' && queue.name === 'trial' && this.#slowClients.isSuspect(key);
    if (isSuspect && queue.queueOf(caller).sizeOf(key) >= MAX_WAITING_OF_SUSPECT) return TOO_MANY;
    const mayWait =
      queue.expectedWait(caller, cost) <= MAX_WAIT &&
      (queue.waiting < MAX_WAITING || queue.makeRoomFor(caller));
    if (mayWait) return undefined;
    return queue.isOwnFault(caller) ? TOO_MANY : OVERLOADED;
  }

  /** Moves waiting reads to the classes that their shapes have by now. */
  #reclassify(): void {
    for (const name of READ_CLASSES)
      this.#queues.of[name].removeWhere(
        ({ shape, caller }) => shape !== undefined && mustMove(name, this.classOf(shape, caller)),
        () => undefined,
      );
  }

  #refuseLate(): void {
    const latest = performance.now() - MAX_WAIT;
    for (const queue of this.#queues.all) {
      if (queue.waiting === 0) continue;
      queue.refused += queue.removeWhere(
        ({ since }) => since <= latest,
        ({ caller }) => {
          if (queue.isObstructed(caller)) return queue.name === 'write' ? RECORD_BUSY : OVERLOADED;
          return queue.isOwnFault(caller) ? TOO_MANY : OVERLOADED;
        },
      );
    }
  }
}
