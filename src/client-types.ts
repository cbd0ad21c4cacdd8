// The types of the client: they check calls against the registry at compile time.
import type { ElementValue, FilterValues, ListParameters, ValueOf } from './client-query-types.ts';
import type { KeyTypeName } from './db/types/column-types.ts';
import type {
  ArrayValue,
  ChoiceOf,
  ColumnsOf,
  HasKey,
  JsonKey,
  KeyColumn,
  KeyValue,
  Referred,
  Row,
  WrittenResource,
} from './resources/definition/resource.ts';

export type { ListParameters } from './client-query-types.ts';

export interface ClientOptions {
  /** The URL of the service without `/api/`, such as `https://example.org`. In a browser, `''` is the origin of the page. */
  readonly baseUrl: string;
  readonly credentials?: { readonly username: string; readonly password: string } | undefined;
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Replaces the global `fetch`. */
  readonly fetch?: typeof fetch | undefined;
  /** Maximum retries (default 0), each after `Retry-After`, up to 600 s. A write is not retried after a 503, which may have written. */
  readonly retries?: number | undefined;
}

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
}

export interface AllOptions extends CallOptions {
  /** `cursor`: each page goes on from the last record of the one before, whatever is inserted or deleted meanwhile. */
  readonly paging?: 'cursor';
}

export interface CountOptions extends CallOptions {
  /** `exact` when absent. Past its limit, a capped count is that limit; an estimate may be wrong for many records. */
  readonly counting?: 'exact' | 'capped' | 'estimated';
}

/** The foreign keys of a resource whose records `list` can fetch with a page, and the models that they refer to. */
type Relations<R extends WrittenResource> = {
  readonly [
    C in keyof ColumnsOf<R> & string as ColumnsOf<R>[C] extends { type: 'foreignKey' } ? C : never
  ]: ColumnsOf<R>[C] extends { references: infer M } ? M : never;
};

export interface ListOptions<R extends WrittenResource> extends CallOptions {
  /** Foreign keys with the name of their model, or an object of foreign keys and their models: `{ to_user: 'user' }`. */
  readonly related?:
    | readonly { [C in keyof Relations<R>]: C extends Relations<R>[C] ? C : never }[keyof Relations<R>][]
    | Partial<Relations<R>>
    | undefined;
  /** Counts the matching records, see `CountOptions`. */
  readonly count?: CountOptions['counting'] | undefined;
}

/** The foreign keys that options ask for. */
type RelatedName<O> = O extends { related: readonly (infer C)[] }
  ? C
  : O extends { related: infer Models }
    ? keyof Models
    : never;

/** What a page has by the options of `list`. */
type PageParts<R extends WrittenResource, All extends WrittenResource, O> = ([RelatedName<O>] extends [never]
  ? unknown
  : {
      /** The related records by their keys. Those that the caller may not see are missing. */
      readonly related: {
        readonly [C in RelatedName<O> & keyof ColumnsOf<R>]: ReadonlyMap<
          KeyValue<Referred<ColumnsOf<R>[C], All>>,
          Row<Referred<ColumnsOf<R>[C], All>, All>
        >;
      };
    }) &
  (O extends { count: string } ? { readonly total: number } : unknown);

export interface CreateManyOptions extends CallOptions {
  /** `minimal`: only the keys of the new records. */
  readonly return?: 'minimal';
}

export interface ChangeOptions extends CallOptions {
  /** The expected ETag of the record (see `etagOf`). When the record has changed, the request fails with 412. */
  readonly etag?: string | undefined;
}

export interface FeedOptions extends CallOptions {
  /** `meta.after` of the page before, the `id` of a change, or `now`. Without it, the page begins with the oldest change. */
  readonly after?: string | undefined;
}

/** A change of a record, with the columns that the caller may read: of an update only those that it changed. */
export type Change<R extends WrittenResource, All extends WrittenResource> = R extends WrittenResource
  ? {
      /** The cursor after this change. */
      readonly id: string;
      readonly at: string;
      readonly model: R['model'];
      readonly record: KeyValue<R>;
      readonly action: 'create' | 'update' | 'delete';
      readonly source: 'api' | 'admin' | 'command';
      readonly user: { readonly id: Id; readonly username: string } | null;
      readonly before: Partial<Row<R, All>> | null;
      readonly after: Partial<Row<R, All>> | null;
      /** Whether the values are too large to be shown. */
      readonly unreadable?: true;
    }
  : never;

/** A page of the change feed. `meta.more` says whether there may be further changes already. */
export interface ChangePage<All extends WrittenResource> {
  readonly meta: { readonly after: string; readonly more: boolean };
  readonly objects: Change<All, All>[];
}

type ReadonlyColumn<R extends WrittenResource> =
  (R extends { readonly: readonly (infer C)[] } ? C : never) | (R extends { version: infer C } ? C : never);
type OwnerColumn<R extends WrittenResource> = R extends { owner: infer C } ? C : never;

type WritableColumn<R extends WrittenResource> = Exclude<
  keyof ColumnsOf<R> & string,
  ReadonlyColumn<R> | OwnerColumn<R>
>;

type IsOptional<C> = C extends { null: true } | { default: unknown } ? true : false;

type BodyValue<C, All extends WrittenResource> =
  | (C extends { type: 'array' }
      ? Readonly<ArrayValue<C, ElementValue<C>>>
      : [ChoiceOf<C>] extends [never]
        ? C extends { type: 'json' }
          ? unknown
          : ValueOf<C, All>
        : ChoiceOf<C> | (C extends { type: 'bigint' } ? bigint : never))
  | (C extends { null: true } ? null : never);

/** A string key is required. Other keys are optional, since the database usually generates them. */
type NaturalKey<R extends WrittenResource> = R extends { primaryKey: { type: 'string' } }
  ? { readonly id: string }
  : R extends { primaryKey: { type: infer T extends KeyTypeName } }
    ? { readonly id?: FilterValues[T] }
    : unknown;

/** The columns of a new record. Those that are NOT NULL and have no default are required. */
export type CreateBody<R extends WrittenResource, All extends WrittenResource> = NaturalKey<R> & {
  readonly [
    C in WritableColumn<R> as IsOptional<ColumnsOf<R>[C]> extends true ? never : JsonKey<ColumnsOf<R>[C], C>
  ]: BodyValue<ColumnsOf<R>[C], All>;
} & {
  readonly [
    C in WritableColumn<R> as IsOptional<ColumnsOf<R>[C]> extends true ? JsonKey<ColumnsOf<R>[C], C> : never
  ]?: BodyValue<ColumnsOf<R>[C], All>;
};

/** The columns that are the key of a resource. */
type KeyPart<R extends WrittenResource> = R extends { primaryKey: { columns: readonly (infer C)[] } }
  ? { [N in C & string]: N | `${N}_id` }[C & string]
  : 'id';

/** A new record whose key is in its address. The body may repeat it. */
export type CreateAtBody<R extends WrittenResource, All extends WrittenResource> = Omit<
  CreateBody<R, All>,
  KeyPart<R>
> &
  Partial<CreateBody<R, All>>;

/** The columns that an update may change. A record as it was read is accepted, too. */
export type UpdateBody<R extends WrittenResource, All extends WrittenResource> =
  | {
      readonly [C in WritableColumn<R> as JsonKey<ColumnsOf<R>[C], C>]?: BodyValue<ColumnsOf<R>[C], All>;
    }
  | Row<R, All>;

export interface Page<T> {
  readonly meta: {
    readonly model: string;
    readonly page: number;
    readonly next: string;
    readonly previous: string;
  };
  readonly objects: T[];
}

export type Id = string | number | bigint;

/** The type of a record's key; any key type when the registry is not known. */
type KeyOf<R extends WrittenResource> = string extends R['model']
  ? Id
  : KeyColumn<R>['type'] extends 'integer'
    ? number | bigint
    : FilterValues[KeyColumn<R>['type']];

interface Reads<R extends WrittenResource, All extends WrittenResource> {
  /** One page of the records that a query matches. */
  readonly list: <const Q extends ListParameters<R, All, Q>, const O extends ListOptions<R> = CallOptions>(
    query?: Q,
    options?: O,
  ) => Promise<Page<Row<R, All>> & PageParts<R, All, O>>;
  /** All records that a query matches. Pages are fetched as they are needed. Cursors need a key. */
  readonly all: <const Q extends ListParameters<R, All, Q>>(
    query?: Q,
    options?: [HasKey<R>] extends [true] ? AllOptions : CallOptions,
  ) => AsyncGenerator<Row<R, All>, void>;
  /** The number of records that a query matches. */
  readonly count: <const Q extends ListParameters<R, All, Q>>(
    query?: Q,
    options?: CountOptions,
  ) => Promise<number>;
}

interface Gets<R extends WrittenResource, All extends WrittenResource> {
  readonly get: (id: KeyOf<R>, options?: CallOptions) => Promise<Row<R, All>>;
}

interface Creates<R extends WrittenResource, All extends WrittenResource> {
  readonly create: (body: CreateBody<R, All>, options?: CallOptions) => Promise<Row<R, All>>;
  /** Creates up to 1,000 records: all of them, or none. */
  readonly createMany: {
    (
      bodies: readonly CreateBody<R, All>[],
      options: CreateManyOptions & { readonly return: 'minimal' },
    ): Promise<KeyValue<R>[]>;
    (bodies: readonly CreateBody<R, All>[], options?: CallOptions): Promise<Row<R, All>[]>;
  };
}

interface CreatesAt<R extends WrittenResource, All extends WrittenResource> {
  /** Creates the record with this key. If there is one already, the request fails with 412. */
  readonly createAt: (
    id: KeyOf<R>,
    body: CreateAtBody<R, All>,
    options?: CallOptions,
  ) => Promise<Row<R, All>>;
}

interface Updates<R extends WrittenResource, All extends WrittenResource> {
  /** Changes the columns in the body. The others keep their values. */
  readonly update: (id: KeyOf<R>, body: UpdateBody<R, All>, options?: ChangeOptions) => Promise<Row<R, All>>;
}

interface Deletes<R extends WrittenResource> {
  readonly delete: (id: KeyOf<R>, options?: ChangeOptions) => Promise<void>;
}

/**
 * Whether the resource allows the method: `methods` lists it, is absent, or has values that TypeScript does not know. A view,
 * and what has no key, has only GET.
 */
type Allows<R extends WrittenResource, M extends string> = R extends { methods: readonly (infer Listed)[] }
  ? M extends Listed
    ? true
    : false
  : R extends { primaryKey: false } | { view: true }
    ? M extends 'GET'
      ? true
      : false
    : true;

/** Whether clients may set the key. A resource without `primaryKey` has a generated one. */
type HasClientKey<R extends WrittenResource> = R extends { primaryKey: object } ? true : false;

/** `never` counts as true: an unknown registry has all methods. */
type If<Condition, T> = [Condition] extends [true] ? T : unknown;

/** The methods of a resource that its `methods` allow. */
export type ResourceClient<R extends WrittenResource, All extends WrittenResource> = If<
  Allows<R, 'GET'>,
  Reads<R, All> & If<HasKey<R>, Gets<R, All>>
> &
  If<Allows<R, 'POST'>, Creates<R, All>> &
  If<Allows<R, 'POST'>, If<Allows<R, 'PUT'>, If<HasClientKey<R>, CreatesAt<R, All>>>> &
  If<Allows<R, 'PUT'>, Updates<R, All>> &
  If<Allows<R, 'DELETE'>, Deletes<R>>;

/** The resource clients by model name. */
export type Client<Resources extends readonly WrittenResource[]> = {
  readonly [M in Resources[number]['model']]: ResourceClient<
    Extract<Resources[number], { readonly model: M }>,
    Resources[number]
  >;
};
