// Links with which a person sets a password, without the current one: for invitations and lost passwords. They are nowhere stored.
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import type { User } from '../../query/statements/user-statements.ts';
import type { Users } from './users.ts';

/** How long a link can be used (hours). */
export const LINK_HOURS = 24;

export type PasswordLinks = ReturnType<typeof createPasswordLinks>;

/**
 * The secret part of a link is the key of the user, the expiry, and a MAC over both and the stored hash: another password ends the
 * link, and so does using it.
 * @param secret that all processes on the database share, and no one else knows
 */
export function createPasswordLinks(users: Pick<Users, 'withKey'>, secret: Buffer) {
  const key = Buffer.from(hkdfSync('sha256', secret, '', 'vitrine password link', 32));
  const macOf = (...texts: readonly string[]): string =>
    createHmac('sha256', key).update(JSON.stringify(texts)).digest('base64url');
  const isMac = (mac: string, ...texts: readonly string[]): boolean => {
    const [expected, actual] = [Buffer.from(macOf(...texts)), Buffer.from(mac)];
    return expected.length === actual.length && timingSafeEqual(expected, actual);
  };

  return {
    /** The secret part of a link for an active user. */
    make({ id, password }: User): string {
      const content = Buffer.from(JSON.stringify([id, Date.now() + LINK_HOURS * 3_600_000]));
      const text = `${content.toString('base64url')}.${macOf(id, password)}`;
      return `${text}.${macOf(text)}`;
    },

    /** The user of a link; undefined for one that was used, is late or is forged, and of a user who is not active. */
    async find(link: string): Promise<User | undefined> {
      const [content = '', ofPassword = '', mac = '', more] = link.split('.', 4);
      // The database is not asked for a forged one.
      if (more !== undefined || !isMac(mac, `${content}.${ofPassword}`)) return undefined;
      const [id, expires] = JSON.parse(Buffer.from(content, 'base64url').toString()) as [string, number];
      const user = expires > Date.now() ? await users.withKey(id) : undefined;
      return user?.active && isMac(ofPassword, id, user.password) ? user : undefined;
    },
  };
}
