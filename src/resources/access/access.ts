// Who asks. The only place that compares access levels.
import { ACCESS_LEVELS, type AccessLevel } from '../../config.ts';

/** Who asks for a resource: a caller of the API, or an admin in the admin area. */
export interface Access {
  /** What an access sees is resolved once for each key. */
  readonly key: string;
  readonly surface: 'api' | 'admin';
  /** The highest level that the caller meets; `default` without credentials. */
  readonly level: AccessLevel;
}

const ofApi = (level: AccessLevel): Access => ({ key: level, surface: 'api', level });

export const ANYONE = ofApi('default');
export const USER = ofApi('user');
export const ADMIN = ofApi('admin');
/** In the admin area every caller is an admin, and the levels and owners of the API do not apply. */
export const ADMIN_AREA: Access = { key: 'admin area', surface: 'admin', level: 'admin' };

/** The access of an API request. @param caller undefined without credentials */
export function accessOf(caller: { readonly admin: boolean } | undefined): Access {
  if (caller === undefined) return ANYONE;
  return caller.admin ? ADMIN : USER;
}

export const meets = ({ level }: Access, needed: AccessLevel): boolean =>
  ACCESS_LEVELS.indexOf(needed) <= ACCESS_LEVELS.indexOf(level);

/** Whether reads at this level need no credentials. No one may write at it. */
export const isOpen = (level: AccessLevel): boolean => meets(ANYONE, level);

/** Whether the level is that of every user. */
export const isForUsers = (level: AccessLevel): boolean => !isOpen(level) && meets(USER, level);

/** Whether the level is that of admins. */
export const isForAdmins = (level: AccessLevel): boolean => !meets(USER, level);
