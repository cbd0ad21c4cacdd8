// The caller's own account: who they are and what they may do, their password, and their tokens.
import type { Settings } from '../../config.ts';
import type { Database } from '../../db/connection/database.ts';
import { requiredColumn, type Column } from '../../db/schema/model.ts';
import type { Parsed } from '../../db/types/column-type.ts';
import { COLUMN_TYPES } from '../../db/types/column-types.ts';
import { checkText } from '../../db/types/json-values.ts';
import {
  addError,
  badBody,
  errorOf,
  notFound,
  Problem,
  unavailable,
  type FieldErrors,
} from '../../errors.ts';
import { messageOf } from '../../messages.ts';
import {
  accessOf,
  ADMIN,
  assertPassword,
  CallerChanged,
  isForAdmins,
  rolesOf,
  type Caller,
} from '../../resources/access/access.ts';
import { makeInTurns } from '../../resources/access/lazy-map.ts';
import type { ResourceView, Views } from '../../resources/access/resource-view.ts';
import { allowedIn } from '../../resources/access/who-may.ts';
import { parseJsonFieldsInTurns } from '../../resources/records/json-fields.ts';
import type { Operations } from '../../resources/records/operations.ts';
import { setOwnPassword } from '../../resources/records/own-password.ts';
import { findRecord } from '../../resources/records/read-record.ts';
import { passwordFault } from '../../resources/users/password-rules.ts';
import { factsOf, type RecordEvent } from '../../resources/users/events.ts';
import { expiryAfter, MAX_LABEL, MAX_TOKENS, readScope, type Tokens } from '../../resources/users/tokens.ts';
import type { Authentication } from '../auth/authentication.ts';
import { assertOrigin } from '../auth/request-origin.ts';
import { withBasePath } from '../message/base-path.ts';
import { authorOf, json, Unauthorized, type ApiRequest, type Reply } from '../message/message.ts';
import { readJsonText } from '../message/request-body.ts';
import { assertNoParameters, effectiveMethod, type AccountRoute } from './api-routes.ts';
import { formatOf } from './negotiation.ts';

export interface AccountOptions {
  readonly views: Views;
  readonly authentication: Authentication;
  /** Undefined if the database has no table for them. */
  readonly tokens: Tokens | undefined;
  readonly databaseFor: (request: ApiRequest, resource: ResourceView) => Pick<Database, 'run'>;
  readonly operations: (request: ApiRequest, resource: ResourceView) => Operations;
  readonly settings: Settings;
  readonly recordEvent: RecordEvent;
}

export type Account = ReturnType<typeof createAccount>;

const keysOf = (columns: readonly Column[] | undefined): string[] | undefined =>
  columns?.map(({ key }) => key);

/** The fields of a body, of which there may be no others. @throws Problem 400, 413, 415 */
async function readFields(request: ApiRequest, names: readonly string[]): Promise<Map<string, unknown>> {
  const fields = await parseJsonFieldsInTurns(await readJsonText(request), request.requester.workInTurns());
  const errors: FieldErrors = {};
  for (const name of fields.keys()) if (!names.includes(name)) addError(errors, name, messageOf('noField'));
  if (Object.keys(errors).length > 0) throw badBody(errors);
  return new Map([...fields].map(([name, { source }]) => [name, JSON.parse(source) as unknown]));
}

export function createAccount(options: AccountOptions) {
  const { views, authentication, settings, recordEvent } = options;
  const userView = (): ResourceView => {
    const view = views(ADMIN).get(settings.userModel);
    if (!view) throw new Error('there is no user model');
    return view;
  };
  const { model } = userView();
  const password = requiredColumn(model, 'password');
  const ofTime = (text: string | null): string | null =>
    text !== null && settings.datetimeFormat === 'iso' ? `${text.replace(' ', 'T')}Z` : text;

  /** The caller of a request that a token must not make. @throws Unauthorized; Problem 403 */
  async function requirePassword(request: ApiRequest): Promise<Caller> {
    const caller = await request.authenticate();
    if (effectiveMethod(request.method) !== 'GET')
      assertOrigin(request.headers, settings, settings.corsOrigins);
    assertPassword(caller);
    return caller;
  }

  function requireTokens(): Tokens {
    if (!options.tokens) throw notFound();
    return options.tokens;
  }

  async function me(request: ApiRequest): Promise<Reply> {
    const caller = await request.authenticate();
    const access = accessOf(caller);
    const seen = views(access);
    await makeInTurns(seen, request.requester.workInTurns());
    const own = seen.get(settings.userModel);
    const record = own?.isReadable
      ? await findRecord(options.databaseFor(request, own), own, caller.id)
      : undefined;
    const rights = [...seen].flatMap(([name, view]) => {
      const allowed = allowedIn(view);
      if (!allowed) return [];
      const { read, create, update, delete: removal } = allowed;
      const some = { read: keysOf(read), create: keysOf(create), update: keysOf(update) };
      return [[name, { ...some, ...(removal && { delete: true }) }]];
    });
    const isNumber = model.primaryKey.type.json === 'bare';
    const parts = {
      id: isNumber ? caller.id : JSON.stringify(caller.id),
      username: JSON.stringify(caller.name),
      roles: JSON.stringify(rolesOf(access).filter((role) => role !== 'anyone')),
      record: record ? record.json.toString() : 'null',
      resources: JSON.stringify(Object.fromEntries(rights)),
    };
    return json(200, `{${Object.entries(parts).map(([name, text]) => `"${name}":${text}`).join()}}`); // prettier-ignore
  }

  /** Verifies the password of the caller, like a login. @throws Problem 400, 429, 503 */
  async function confirm(request: ApiRequest, caller: Caller, current: string) {
    const { network } = request.client();
    const login = await authentication
      .logIn({ name: caller.name, password: current }, network, (callback) =>
        request.requester.onGone(callback),
      )
      .catch((error: unknown) => {
        throw error instanceof Unauthorized ? badBody(errorOf('current', messageOf('notPassword'))) : error;
      });
    if (login.caller.id !== caller.id) throw badBody(errorOf('current', messageOf('notPassword')));
    return login;
  }

  async function changePassword(request: ApiRequest): Promise<Reply> {
    const caller = await requirePassword(request);
    const fields = await readFields(request, ['current', 'password', 'revoke']);
    const errors: FieldErrors = {};
    const textOf = (name: string): string => {
      const text = checkText(fields.get(name) ?? '', {});
      if (text.fault !== undefined) addError(errors, name, text.fault);
      else if (text.value === '') addError(errors, name, messageOf('required'));
      return text.value ?? '';
    };
    const [current, wanted] = [textOf('current'), textOf('password')];
    const rules = { name: caller.name, minPassword: settings.minPassword };
    const fault = errors['password'] ? undefined : passwordFault(wanted, password, rules);
    if (fault) addError(errors, 'password', fault);
    const revoke = fields.get('revoke') ?? false;
    if (typeof revoke !== 'boolean') addError(errors, 'revoke', messageOf('notBoolean'));
    if (Object.keys(errors).length > 0) throw badBody(errors);
    const { precondition } = await confirm(request, caller, current);
    const view = userView();
    const operations = options.operations(request, { ...view, seenBy: accessOf(caller) });
    await setOwnPassword(view, operations, { ...authorOf(caller, request), precondition }, wanted).catch(
      (error: unknown) => {
        throw error instanceof CallerChanged ? unavailable(messageOf('userChanged')) : error;
      },
    );
    if (revoke)
      for (const { id } of (await options.tokens?.list(caller.id)) ?? [])
        if (await options.tokens?.revoke(id, caller.id))
          void recordEvent('token.revoked', factsOf(request, caller, { token: id }));
    return { status: 204, headers: {}, body: '' };
  }

  async function listTokens(request: ApiRequest): Promise<Reply> {
    const caller = await requirePassword(request);
    const isAll = isForAdmins(accessOf(caller).level);
    const tokens = await requireTokens().list(isAll ? undefined : caller.id);
    const listed = tokens.map(({ id, user, label, scope, created, expires, used, isValid }) => ({
      id: Number(id),
      user,
      label,
      resources: scope.models ?? null,
      methods: scope.methods ?? null,
      created: ofTime(created),
      expires: ofTime(expires),
      used,
      valid: isValid,
    }));
    return json(200, JSON.stringify({ tokens: listed }));
  }

  async function addToken(request: ApiRequest): Promise<Reply> {
    const caller = await requirePassword(request);
    const fields = await readFields(request, ['label', 'resources', 'methods', 'expires']);
    const errors: FieldErrors = {};
    const label = checkText(fields.get('label') ?? '', { maxLength: MAX_LABEL });
    if (label.fault !== undefined) addError(errors, 'label', label.fault);
    const isKnown = (name: string): boolean => views(ADMIN).has(name);
    const scope = readScope(fields.get('resources'), fields.get('methods'), isKnown, errors);
    let expires: string | null = expiryAfter();
    const given = fields.get('expires');
    if (given === null) expires = null;
    else if (given !== undefined) {
      const { datetime } = COLUMN_TYPES;
      const parsed: Parsed =
        typeof given === 'string'
          ? datetime.fromJson(given, JSON.stringify(given), { castType: datetime.castType })
          : { fault: messageOf('notString') };
      if (parsed.fault !== undefined) addError(errors, 'expires', parsed.fault);
      else if (parsed.value <= expiryAfter(0)) addError(errors, 'expires', messageOf('notFuture'));
      else expires = parsed.value;
    }
    if (Object.keys(errors).length > 0) throw badBody(errors);
    const made = await requireTokens().add(caller.id, { label: label.value ?? '', scope, expires });
    if (!made) throw new Problem(409, messageOf('tooManyTokens', { max: MAX_TOKENS }));
    void recordEvent('token.made', factsOf(request, caller, { token: made.id }));
    const shown = {
      id: Number(made.id),
      token: made.token,
      label: label.value,
      resources: scope.models ?? null,
      methods: scope.methods ?? null,
      expires: ofTime(expires),
    };
    return json(201, JSON.stringify(shown), { Location: withBasePath(`/api/-/tokens/${made.id}/`) });
  }

  async function revokeToken(request: ApiRequest, id: string): Promise<Reply> {
    const caller = await requirePassword(request);
    const isAny = isForAdmins(accessOf(caller).level);
    const isRevoked = await requireTokens().revoke(id, isAny ? undefined : caller.id);
    if (!isRevoked) throw notFound(messageOf('noRecord'));
    void recordEvent('token.revoked', factsOf(request, caller, { token: id }));
    return json(200, '{"deleted": 1}');
  }

  return {
    /** @param request its method must be one that `assertAllowed` accepts for the route */
    async answer(request: ApiRequest, route: AccountRoute): Promise<Reply> {
      // Who asks comes before what is wrong with the request.
      await (route.kind === 'me' ? request.authenticate() : requirePassword(request));
      formatOf(request, ['json']);
      assertNoParameters(request.query);
      if (route.kind === 'me') return me(request);
      if (route.kind === 'password') return changePassword(request);
      if (route.kind === 'token') return revokeToken(request, route.id);
      return effectiveMethod(request.method) === 'GET' ? listTokens(request) : addToken(request);
    },
  };
}
