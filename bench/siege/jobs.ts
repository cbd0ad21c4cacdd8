// What attackers are asked to do and what they report. Both travel between processes as JSON.

/** A body that is too long to be sent as it is. */
export interface Repeated {
  readonly before?: string;
  readonly repeat: string;
  readonly times: number;
  readonly after?: string;
}

export interface RequestShape {
  readonly method?: string;
  /** `{n}` stands for a number that no other request has. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Repeated;
}

/** Connections that each send the next request after the answer to the one before. */
export interface Flood {
  readonly kind: 'flood';
  readonly port: number;
  readonly connections: number;
  /** The client addresses, which the requests take in turn. */
  readonly addresses: readonly string[];
  /** Whether each connection keeps one address; else each request has the next one. */
  readonly keepsAddress?: boolean;
  readonly requests: readonly RequestShape[];
  /** Milliseconds between an answer and the next request. */
  readonly pause?: number;
  /** Disconnects after so many milliseconds instead of waiting for the answer. */
  readonly abandonAfter?: number;
  /**
   * Whether the attack has begun only once every connection has had an answer or was closed. Making many connections takes
   * processor time, and refusals are not timed until then.
   */
  readonly isGradual?: boolean;
  /** Milliseconds between the first requests of two connections. */
  readonly stagger?: number;
  /** Requests in all; else until it is stopped. */
  readonly most?: number;
}

/** Connections that each send a slow request, and many short ones right behind it. */
export interface Pipeline {
  readonly kind: 'pipeline';
  readonly port: number;
  readonly connections: number;
  readonly address: string;
  readonly first: string;
  readonly path: string;
  readonly count: number;
  /** As of a flood. */
  readonly isGradual?: boolean;
}

/** Connections that ask for something large and read little of it. */
export interface SlowReaders {
  readonly kind: 'slow readers';
  readonly port: number;
  readonly connections: number;
  readonly addresses: readonly string[];
  readonly request: RequestShape;
  /** Bytes per second; 0 reads nothing. */
  readonly rate: number;
  /** How often each connection sends the request at once; else once. */
  readonly times?: number;
  /** Bytes behind the request. */
  readonly behind?: string;
  /** What follows them: their last byte in a packet of its own, or many of them, again and again. */
  readonly packets?: 'single bytes' | 'large';
}

/** Connections with heads that never end; each is replaced when the service closes it. */
export interface UnfinishedHeads {
  readonly kind: 'unfinished heads';
  readonly port: number;
  readonly connections: number;
  readonly head: string;
  /** The address of this machine that they come from. */
  readonly from: string;
}

/** Connections that send a request without its end, and then all of the ends at once; again and again. */
export interface WithheldBytes {
  readonly kind: 'withheld bytes';
  readonly port: number;
  readonly connections: number;
  readonly address: string;
  readonly request: RequestShape;
  /** How many bytes are sent last; else 1. */
  readonly withheld?: number;
}

export type Job = Flood | Pipeline | SlowReaders | UnfinishedHeads | WithheldBytes;

export interface AttackReport {
  /** Requests that were sent. */
  readonly sent: number;
  /** Answers by their status. */
  readonly statuses: Readonly<Record<string, number>>;
  /** Connections that the service closed or refused. */
  readonly closed: number;
  /** Milliseconds from a request to the answer that refused it (429 or 503), sorted. */
  readonly refusals: readonly number[];
  /** Bytes of the largest answer. */
  readonly largest: number;
}

export const sum = (reports: readonly AttackReport[], status: string): number =>
  reports.reduce((all, { statuses }) => all + (statuses[status] ?? 0), 0);
