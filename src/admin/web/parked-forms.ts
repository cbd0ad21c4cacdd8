// Keeps forms that were sent after their session had expired, until the user has logged in again.
import { createHash, randomBytes } from 'node:crypto';
import type { Siblings } from '../../processes.ts';
import { createForm, PASSWORD_FIELDS, type Form } from './form-data.ts';

/** How long a form is kept (milliseconds). */
const LIFETIME = 30 * 60_000;
const MAX_FORMS = 100;
const MAX_PER_SESSION = 5;
/** One user can have many ended sessions, and must not displace the forms of other users. */
const MAX_PER_USER = 20;

/** Passwords are never kept. The CSRF token belongs to the expired session. */
const DROPPED_FIELDS = new Set(['_csrf', ...PASSWORD_FIELDS]);

/** Whether a text can be the id of a parked form. */
export const isParkedId = (id: string): boolean => /^[\w-]{22}$/.test(id);

interface ParkedForm {
  /** The digest of the session's token. */
  readonly session: string;
  readonly user: string;
  readonly form: Form;
  /** Milliseconds since 1970. */
  readonly expires: number;
}

const digest = (token: string): string => createHash('sha256').update(token).digest('base64');

export type Parking = ReturnType<typeof createParking>;

/** A parked form as a message to another process. */
type SentForm = Omit<ParkedForm, 'form'> & { readonly entries: Form['entries'] };

/** The next session of a user, as a message to another process. Both sessions are digests of tokens. */
interface Move {
  readonly before: string;
  readonly session: string;
  readonly user: string;
}

/**
 * Forms of expired sessions, in the memory of this process. Only the browser with the session's cookie gets them back, and only
 * after the same user has logged in again.
 */
export function createParking(siblings?: Siblings) {
  const parked = new Map<string, ParkedForm>();
  siblings?.onQuestion('form', (id): SentForm | undefined => {
    const { form, ...rest } = parked.get(id) ?? {};
    return form && ({ ...rest, entries: form.entries } as SentForm);
  });
  siblings?.onQuestion('move', (move) => moveHere(JSON.parse(move) as Move));

  function moveHere({ before, session, user }: Move): void {
    for (const [id, one] of parked)
      if (one.session === before && one.user === user) parked.set(id, { ...one, session });
  }

  /** Finds a form of this session. The form stays, because the browser may send the login twice. */
  function find(token: string, id: string | undefined): Form | undefined {
    const found = id === undefined ? undefined : parked.get(id);
    return found?.session === digest(token) && found.expires >= Date.now() ? found.form : undefined;
  }

  /** Deletes the oldest matching form when `max` or more match. */
  function makeRoomAmong(max: number, matches: (form: ParkedForm) => boolean): void {
    const same = [...parked].filter(([, one]) => matches(one)).map(([id]) => id);
    if (same.length >= max) parked.delete(same[0] ?? '');
  }

  /** Makes room for one more form. The map is ordered by age. */
  function makeRoom(session: string, user: string): void {
    for (const [id, { expires }] of parked) if (expires < Date.now()) parked.delete(id);
    makeRoomAmong(MAX_PER_SESSION, (one) => one.session === session);
    makeRoomAmong(MAX_PER_USER, (one) => one.user === user);
    const [oldest] = parked.keys();
    if (parked.size >= MAX_FORMS) parked.delete(oldest ?? '');
  }

  return {
    /** Keeps a form. @returns its id, which the login page carries */
    park(token: string, user: string, form: Form): string {
      const session = digest(token);
      makeRoom(session, user);
      const id = randomBytes(16).toString('base64url');
      const kept = createForm(form.entries.filter(([name]) => !DROPPED_FIELDS.has(name)));
      parked.set(id, { session, user, form: kept, expires: Date.now() + LIFETIME });
      return id;
    },

    /** Fetches a form of this session that another process has kept. The copy of this process may be of an earlier session. */
    async fetch(token: string, id: string | undefined): Promise<void> {
      if (!siblings || id === undefined || !isParkedId(id) || find(token, id)) return;
      const answers = (await siblings.ask('form', id)) as readonly SentForm[];
      const found = answers.find(({ session }) => session === digest(token));
      if (!found) return;
      const { session, user, expires, entries } = found;
      parked.delete(id);
      makeRoom(session, user);
      parked.set(id, { session, user, expires, form: createForm(entries) });
    },

    /** Moves the forms of an expired session, in all processes, to the next session of the same user in the same browser. */
    async move(from: string, to: string, user: string): Promise<void> {
      const move: Move = { before: digest(from), session: digest(to), user };
      moveHere(move);
      await siblings?.ask('move', JSON.stringify(move));
    },

    find,
  };
}
