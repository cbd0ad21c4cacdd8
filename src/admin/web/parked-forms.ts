import { createHash, randomBytes } from 'node:crypto';
import { createForm, PASSWORD_FIELDS, type Form } from './form-data.ts';

/** How long a form is kept (milliseconds), how many are kept, and how many of one session and of one user. */
const LIFE = 30 * 60_000;
const MAX_FORMS = 100;
const MAX_OF_SESSION = 5;
/** A user may have any number of ended sessions, and must not push out the forms of others with them. */
const MAX_OF_USER = 20;

/** Passwords are never kept; the token belongs to the session that has ended. */
const DROPPED = new Set(['_csrf', ...PASSWORD_FIELDS]);

interface ParkedForm {
  /** The digest of the session's token. */
  readonly session: string;
  readonly user: string;
  readonly form: Form;
  readonly until: number;
}

/**
 * Forms that were sent after their session had ended, in the memory of this process. Only the browser that has the session's
 * cookie gets them back, and only after its user has logged in again.
 */
export interface Parking {
  /** Keeps a form. @returns the id by which the login page refers to it */
  readonly park: (token: string, user: string, form: Form) => string;
  /** Hands the forms of an ended session on to the next session of the same user in the same browser. */
  readonly move: (from: string, to: string, user: string) => void;
  /** A form of this session; it stays, since the login may be sent twice. */
  readonly find: (token: string, id: string | undefined) => Form | undefined;
}

const digest = (token: string): string => createHash('sha256').update(token).digest('base64');

export function createParking(): Parking {
  const parked = new Map<string, ParkedForm>();

  /** Deletes the oldest form of some, where there are too many of these. */
  function makeRoomAmong(most: number, isOne: (form: ParkedForm) => boolean): void {
    const same = [...parked].filter(([, one]) => isOne(one)).map(([id]) => id);
    if (same.length >= most) parked.delete(same[0] ?? '');
  }

  /** Makes room for one more form of the session. The map is in order of age. */
  function makeRoom(session: string, user: string): void {
    for (const [id, { until }] of parked) if (until < Date.now()) parked.delete(id);
    makeRoomAmong(MAX_OF_SESSION, (one) => one.session === session);
    makeRoomAmong(MAX_OF_USER, (one) => one.user === user);
    const [oldest] = parked.keys();
    if (parked.size >= MAX_FORMS) parked.delete(oldest ?? '');
  }

  return {
    park(token, user, form) {
      const session = digest(token);
      makeRoom(session, user);
      const id = randomBytes(16).toString('base64url');
      const kept = createForm(form.entries.filter(([name]) => !DROPPED.has(name)));
      parked.set(id, { session, user, form: kept, until: Date.now() + LIFE });
      return id;
    },

    move(from, to, user) {
      const [before, session] = [digest(from), digest(to)];
      for (const [id, one] of parked)
        if (one.session === before && one.user === user) parked.set(id, { ...one, session });
    },

    find(token, id) {
      const found = id === undefined ? undefined : parked.get(id);
      return found?.session === digest(token) && found.until >= Date.now() ? found.form : undefined;
    },
  };
}
