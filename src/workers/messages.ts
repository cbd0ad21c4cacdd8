// The messages between `vitrine serve` and the processes that it starts. They only ever come from Vitrine itself.
import type { PriorityClass } from '../resources/passwords/password-gate.ts';
import type { Topic } from '../processes.ts';
import type { Batch } from './shared-state.ts';

/** What a new process must know. */
export interface WorkerStart {
  /** 1 for the first of them. A process that replaces another has its number. */
  readonly number: number;
  readonly processes: number;
  /** Whether it applies the schema and logs warnings. The others start after it. */
  readonly leads: boolean;
  /** The embedded database, if there is one. */
  readonly embeddedUrl: string | undefined;
  /** Whether the service starts with it: no other process listens, and an embedded database may be new and empty. */
  readonly isInitial: boolean;
  /** File descriptor of the passed socket in the parent process. */
  readonly passed: number | undefined;
  /** Base64. */
  readonly secret: string;
}

interface Question {
  readonly kind: 'question';
  readonly id: number;
  readonly topic: Topic;
  readonly data: string;
}

export type ToWorker =
  | { readonly kind: 'start'; readonly start: WorkerStart }
  | { readonly kind: 'batch'; readonly batch: Batch }
  | { readonly kind: 'slot'; readonly id: number; readonly isFree: boolean }
  | { readonly kind: 'answers'; readonly id: number; readonly answers: readonly unknown[] }
  | Question;

export type ToParent =
  /** It listens to messages from now on: Node.js does not keep earlier ones. */
  | { readonly kind: 'join' }
  /** It serves. The text says where. */
  | { readonly kind: 'ready'; readonly text: string }
  | { readonly kind: 'batch'; readonly batch: Batch }
  /** It asks for a slot to hash a password. */
  | { readonly kind: 'slot'; readonly id: number; readonly priority: PriorityClass }
  /** It needs the slot no longer, or its client has disconnected. */
  | { readonly kind: 'release'; readonly id: number }
  | { readonly kind: 'answer'; readonly id: number; readonly data: unknown }
  /** Its last metrics, before it ends. */
  | { readonly kind: 'ended'; readonly metrics: string }
  | Question;
