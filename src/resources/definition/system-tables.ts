// The resources of Vitrine's system tables: the history of changes, events and their seals, sessions of the admin area, secrets, tokens, keys
// of requests, second factors, and saved views.
import type { Resource } from './resource.ts';

/** Names with this prefix are reserved for system tables. */
export const SYSTEM_PREFIX = 'vitrine_';

/** The log of changes. Values from records have no length limits and no foreign keys, because entries outlive the records. */
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
    // JSON as text, because a json column may hold values that jsonb refuses.
    before: { type: 'text', null: true },
    after: { type: 'text', null: true },
    // About the request, for admins only.
    roles: { type: 'text', null: true, read: 'admin' },
    address: { type: 'text', null: true, read: 'admin' },
    request: { type: 'text', null: true, read: 'admin' },
    // The same text in all entries of one operation on several records.
    batch: { type: 'text', null: true, index: true },
    // Of a change that the database made: the deleted record that led to it, as `model/key`.
    cause: { type: 'text', null: true },
  },
  history: false,
  ordering: '-id',
  admin: {
    title: 'History',
    list: ['at', 'user_name', 'door', 'action', 'model', 'record'],
    search: ['user_name', 'model', 'record', 'before', 'after'],
    filters: ['at', 'user_name', 'door', 'action', 'model', 'record', 'batch', 'address'],
    allow: [],
  },
} satisfies Resource;

/** The columns that the history of a database from an earlier version may lack. */
export const ADDED_COLUMNS: readonly string[] = ['roles', 'address', 'request', 'batch', 'cause'];

/** The history's column for the change source: where a change came from. */
export const SOURCE_COLUMN = 'door';

/** Sessions of the admin area. The table only has the SHA-256 of a session's token. */
export const SESSION = {
  model: 'vitrine_session',
  primaryKey: { type: 'string', column: 'token_hash' },
  columns: {
    user_key: { type: 'text', index: true },
    // SHA-256 of the user's password hash, so that a new password ends the session.
    password_mark: { type: 'string', maxLength: 64 },
    created: { type: 'datetime', default: 'now' },
    seen: { type: 'datetime', default: 'now' },
    address: { type: 'text' },
    agent: { type: 'text' },
    // JSON of the forms submitted last, so that no form runs twice: see users/sessions.ts.
    done: { type: 'text', default: '' },
  },
  history: false,
  admin: { hidden: true },
} satisfies Resource;

/** Secrets that all processes on the database share. */
export const SECRET = {
  model: 'vitrine_secret',
  primaryKey: { type: 'string', column: 'name' },
  columns: { value: { type: 'text' } },
  history: false,
  admin: { hidden: true },
} satisfies Resource;

/** Tokens of the API: see users/tokens.ts. The table only has the SHA-256 of a token's secret. */
export const TOKEN = {
  model: 'vitrine_token',
  primaryKey: { type: 'bigint' },
  columns: {
    user_key: { type: 'text', index: true },
    secret_hash: { type: 'string', maxLength: 64, unique: true },
    label: { type: 'text', default: '' },
    // The scope: names separated by commas, NULL for all of them.
    models: { type: 'text', null: true },
    methods: { type: 'text', null: true },
    created: { type: 'datetime', default: 'now' },
    expires: { type: 'datetime', null: true },
    // The day of the last use, so that not every request writes to the database.
    used: { type: 'date', null: true },
  },
  history: false,
  admin: { hidden: true },
} satisfies Resource;

/** The keys with which clients repeat a write (Idempotency-Key), and what its answer was made of: see records/repeated-request.ts. */
export const REQUEST_KEY = {
  model: 'vitrine_idempotency',
  primaryKey: { type: 'string', column: 'key_hash' },
  columns: {
    request: { type: 'string', maxLength: 64 },
    created: { type: 'datetime', default: 'now', index: true },
    shown: { type: 'text' },
    action: { type: 'string', maxLength: 16 },
    records: { type: 'text' },
  },
  history: false,
  admin: { hidden: true },
} satisfies Resource;

/** The second factors of users: see users/second-factor.ts. */
export const SECOND_FACTOR = {
  model: 'vitrine_second_factor',
  primaryKey: { type: 'string', column: 'user_key' },
  columns: {
    // In base32. The service computes codes from it, so a hash would not do.
    secret: { type: 'string', maxLength: 64 },
    // The time of the last code that was taken, in steps of 30 seconds: no code is taken twice.
    last_step: { type: 'bigint' },
    // Wrong codes since the last right one.
    failures: { type: 'integer', default: 0 },
    // SHA-256 of the recovery codes that are left.
    recovery: { type: 'array', of: 'text' },
    created: { type: 'datetime', default: 'now' },
    // The session in which a code was given last, and when.
    session: { type: 'string', maxLength: 64, null: true },
    confirmed: { type: 'datetime', null: true },
  },
  history: false,
  admin: { hidden: true },
} satisfies Resource;

/** Lists that people have saved, as tabs: see users/saved-views.ts. */
export const VIEW = {
  model: 'vitrine_view',
  primaryKey: { type: 'bigint' },
  columns: {
    // NULL for a view that all share.
    user_key: { type: 'text', null: true, index: true },
    model: { type: 'text' },
    title: { type: 'text' },
    query: { type: 'text' },
    created: { type: 'datetime', default: 'now' },
  },
  history: false,
  admin: { hidden: true },
} satisfies Resource;

/** The checkpoints of the sealed history: see history/seals.ts. */
export const SEAL = {
  model: 'vitrine_seal',
  primaryKey: { type: 'bigint' },
  columns: { content: { type: 'text' }, signature: { type: 'text' } },
  history: false,
  admin: { hidden: true },
} satisfies Resource;

/** What happened besides changes of records: see users/events.ts. */
export const EVENT = {
  model: 'vitrine_event',
  primaryKey: { type: 'bigint' },
  columns: {
    at: { type: 'datetime', default: 'now', label: 'When' },
    event: { type: 'string', maxLength: 64 },
    user_key: { type: 'text', null: true, label: 'User id' },
    user_name: { type: 'text', null: true, label: 'User' },
    address: { type: 'text', null: true },
    request: { type: 'text', null: true },
    // JSON as text.
    detail: { type: 'text', null: true },
  },
  history: false,
  ordering: '-id',
  admin: {
    title: 'Events',
    list: ['at', 'event', 'user_name', 'address', 'detail'],
    search: ['event', 'user_name', 'address', 'request', 'detail'],
    filters: ['at', 'event', 'user_name', 'address'],
    allow: [],
  },
} satisfies Resource;

/** The system tables that the admin area shows. */
export const SHOWN_SYSTEM_TABLES: readonly Resource[] = [HISTORY, EVENT];

/** All system tables. They are created and compared like those of the registry. */
export const SYSTEM_TABLES: readonly Resource[] = [
  HISTORY,
  SESSION,
  SECRET,
  TOKEN,
  REQUEST_KEY,
  EVENT,
  SEAL,
  SECOND_FACTOR,
  VIEW,
];
