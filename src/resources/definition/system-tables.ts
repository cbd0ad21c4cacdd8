import type { Resource } from './resource.ts';

/** Names that begin with this are for the service's own tables. */
export const SYSTEM_PREFIX = 'vitrine_';

/**
 * The log of changes. Texts have no length and no foreign key leads out of it: it must be able to speak of whatever was
 * there, and outlive it.
 */
export const HISTORY = {
  model: 'vitrine_history',
  primaryKey: { type: 'bigint' },
  columns: {
    at: { type: 'datetime', default: 'now', label: 'When' },
    user_key: { type: 'text', null: true, label: 'User id' },
    user_name: { type: 'text', null: true, label: 'User' },
    door: { type: 'string', maxLength: 16, choices: ['api', 'admin', 'command'], label: 'Where' },
    action: { type: 'string', maxLength: 16, choices: ['create', 'update', 'delete'] },
    model: { type: 'text' },
    record: { type: 'text', index: true },
    // JSON as text: what a json column holds is not always something that jsonb takes.
    before: { type: 'text', null: true },
    after: { type: 'text', null: true },
  },
  history: false,
  ordering: '-id',
  admin: {
    title: 'History',
    list: ['at', 'user_name', 'door', 'action', 'model', 'record'],
    search: ['user_name', 'model', 'record', 'before', 'after'],
    filters: ['at', 'user_name', 'door', 'action', 'model', 'record'],
    allow: [],
  },
} satisfies Resource;

/** Logins of the admin area. The token itself is only in the browser; here is its SHA-256. */
export const SESSION = {
  model: 'vitrine_session',
  primaryKey: { type: 'string', column: 'token_hash' },
  columns: {
    user_key: { type: 'text', index: true },
    // SHA-256 of the user's stored password hash: another password ends the session.
    password_mark: { type: 'string', maxLength: 64 },
    created: { type: 'datetime', default: 'now' },
    seen: { type: 'datetime', default: 'now' },
    address: { type: 'text' },
    agent: { type: 'text' },
    // The forms that were done last, so that none is done twice: JSON, see sessions.ts.
    done: { type: 'text', default: '' },
  },
  history: false,
  admin: { hidden: true },
} satisfies Resource;

/** The service's own tables; they are created and compared like any other. */
export const SYSTEM_TABLES: readonly Resource[] = [HISTORY, SESSION];
