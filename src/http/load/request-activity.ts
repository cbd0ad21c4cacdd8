// Admits a request, pauses it while it waits for something else, and admits it again.
import type { ServerResponse } from 'node:http';
import { ClientGone } from '../../db/scheduling/requester.ts';
import { isRead, type HasNetwork } from '../message/message.ts';
import type { Admission } from './admission.ts';
import type { AdmissionRequest } from './request-queue.ts';

/** The parts of a request that `RequestActivity` uses. */
interface ActiveRequest extends HasNetwork {
  readonly method: string;
  readonly response: ServerResponse;
}

export class RequestActivity implements AdmissionRequest {
  countedFor: string | undefined;
  uncharged = 0;
  wasCharged = false;
  /** Whether the request was admitted, so that work for it has started. */
  hasStarted = false;
  readonly #request: ActiveRequest;
  readonly #admission: Admission;
  #isActive = false;
  #isOver = false;
  /** The admission that `resume` waits for, shared by all parts of the request. */
  #resumption: Promise<void> | undefined;

  constructor(request: ActiveRequest, admission: Admission) {
    this.#request = request;
    this.#admission = admission;
  }

  get network(): string {
    return this.#request.network;
  }

  /**
   * Admits the request for the first time.
   * @returns undefined if it may start at once, else a promise that resolves when it may
   * @throws Refusal
   */
  enter(): Promise<void> | undefined {
    const admitted = this.#admission.enter(this, performance.now());
    if (admitted) return admitted.then(() => this.#start());
    this.#start();
    return undefined;
  }

  /** See `Requester`. */
  pause(): void {
    if (this.#isActive) this.#admission.leave(this);
    this.#isActive = false;
  }

  /** @throws Refusal; ClientGone */
  async enterAgain(): Promise<void> {
    const admitted = this.#admission.enterAgain(this, performance.now());
    if (admitted) await admitted;
    this.#start();
    if (this.#request.response.closed) throw new ClientGone();
  }

  /** Queues before long work. See `Admission.enterQueued`. @throws Refusal; ClientGone */
  async enterQueued(): Promise<void> {
    this.pause();
    await this.#admission.enterQueued(this, performance.now());
    this.#start();
    if (this.#request.response.closed) throw new ClientGone();
  }

  /** See `Requester`. */
  resume(): Promise<void> | undefined {
    // A write may be committed already, so it must not be refused.
    if (this.#isActive || !isRead(this.#request.method)) return undefined;
    return (this.#resumption ??= this.enterAgain().finally(() => (this.#resumption = undefined)));
  }

  /** Ends the request. A part of its work may still wait for its turn while another part has failed. */
  end(): void {
    if (!this.#isOver && this.hasStarted) this.#admission.end(this);
    this.#isOver = true;
    this.pause();
  }

  #start(): void {
    this.#isActive = true;
    this.hasStarted = true;
    if (this.#isOver) this.pause();
  }
}
