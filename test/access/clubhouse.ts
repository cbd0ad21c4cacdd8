// Two services on two databases, which differ only in what one caller may not see: columns, levels, rows, masked values, models.
import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import type { Panel, Resource, Roles } from '../../src/index.ts';
import { EVENT, HISTORY } from '../../src/resources/definition/system-tables.ts';
import { user as sampleUser } from '../../src/resources/registry.ts';
import {
  addressOf,
  cheapHash,
  createDatabase,
  startBeside,
  type Sql,
  type TestDatabase,
} from '../support.ts';

export type Surface = 'api' | 'admin';

const to = (references: string) => ({ type: 'foreignKey', references, null: true }) as const;

const user = {
  ...sampleUser,
  columns: { ...sampleUser.columns, role: { type: 'array', of: 'string', null: true }, team: to('team') },
  read: 'admin',
} satisfies Resource;

const team = {
  model: 'team',
  columns: {
    name: { type: 'string' },
    lead: to('user'),
    budget: { type: 'integer', null: true, read: ['boss'] },
  },
  read: 'user',
} satisfies Resource;

const item = {
  model: 'item',
  columns: {
    name: { type: 'string' },
    team: to('team'),
    parent: to('item'),
    owner: to('user'),
    vault: to('vault'),
    amount: { type: 'decimal', precision: 12, scale: 4, null: true },
    count: { type: 'integer', null: true },
    big: { type: 'bigint', null: true },
    due: { type: 'date', null: true },
    at: { type: 'datetime', null: true },
    flag: { type: 'boolean', null: true },
    locked: { type: 'boolean', null: true },
    kind: { type: 'string', choices: ['a', 'b', 'c'] },
    tags: { type: 'array', of: 'string', null: true },
    data: { type: 'json', null: true },
    code: { type: 'uuid', null: true },
    secret: { type: 'text', null: true },
    salary: { type: 'integer', null: true, read: ['boss'], write: ['boss'] },
  },
  exclude: ['secret'],
  read: 'admin',
  access: ['clerk'],
  ordering: '-salary,name',
  admin: {
    exclude: ['code'],
    label: '{name} {team__name} {owner__username} {secret}',
    search: ['name', 'secret', 'team__name', 'owner__username', 'owner__email', 'vault__name'],
  },
} satisfies Resource;

const part = {
  model: 'part',
  primaryKey: { columns: ['item', 'pos'] },
  columns: {
    item: { type: 'foreignKey', references: 'item', onDelete: 'cascade' },
    pos: { type: 'integer' },
    label: { type: 'string', null: true },
    price: { type: 'decimal', precision: 12, scale: 4, null: true, read: ['boss'] },
    up_item: { type: 'integer', null: true },
    up_pos: { type: 'integer', null: true },
  },
  foreignKeys: { above: { columns: ['up_item', 'up_pos'], references: 'part' } },
  read: 'admin',
  maxCount: 5,
} satisfies Resource;

const vault = { model: 'vault', columns: { name: { type: 'string' } }, read: 'admin' } satisfies Resource;

const note = {
  model: 'note',
  columns: { text: { type: 'text' }, item: to('item'), owner: to('user'), diary: to('diary') },
  access: 'user',
  owner: 'owner',
  cache: 60,
  rows: { read: ['owner=$me', '-item__locked=true'] },
} satisfies Resource;

/** Whose policy shows each user their own rows, and all rows to a statement that knows no caller. */
const diary = {
  model: 'diary',
  columns: { text: { type: 'text' }, item: to('item'), owner: to('user') },
  identity: true,
} satisfies Resource;

const POLICY = `create policy own on diary using (coalesce(current_setting('vitrine.request', true), '') = '' or owner_id::text = current_setting('vitrine.user', true));
  alter table diary enable row level security`;

/** Previews of imports use keys, too: not those that only one of the databases has. */
const OTHER_KEYS = 'alter table vitrine_history alter column id restart with 1000000000';

/** What PostgreSQL knows of a table is then no older in one database than in the other. */
const WITHOUT_AUTOVACUUM = `do $$ declare name text; begin
  for name in select tablename from pg_tables where schemaname = 'public' loop
    execute format('alter table %I set (autovacuum_enabled = false)', name);
  end loop; end $$`;

const overview = {
  model: 'overview',
  primaryKey: { type: 'integer', column: 'id' },
  columns: {
    name: { type: 'string', null: true },
    team: to('team'),
    amount: { type: 'decimal', precision: 12, scale: 4, null: true },
    flag: { type: 'boolean', null: true },
    secret: { type: 'text', null: true },
  },
  exclude: ['secret'],
  methods: ['GET'],
  rows: { read: 'flag__is=true' },
} satisfies Resource;

export const resources: readonly Resource[] = [user, team, item, part, vault, note, diary, overview];

const roles = {
  boss: {
    admin: true,
    grants: {
      user: { read: { exclude: ['role'] } },
      team: { read: true },
      item: { read: true, create: true, update: true, delete: true, export: true, history: true },
      part: { read: true, history: true },
    },
  },
  clerk: {
    admin: true,
    grants: {
      user: { read: { columns: ['username', 'team'], rows: 'team=$me.team' } },
      team: { read: { rows: 'id=$me.team' } },
      item: {
        read: { exclude: ['big'], rows: 'team=$me.team' },
        create: true,
        update: { exclude: ['amount'], rows: 'team=$me.team' },
        delete: { rows: ['team=$me.team&kind=a', 'owner=$me'] },
        export: true,
        import: true,
        history: true,
      },
      part: {
        read: { rows: 'item__team=$me.team' },
        update: { columns: ['label'], rows: 'item__team=$me.team' },
        export: true,
      },
      note: { read: { rows: 'item__team=$me.team' }, delete: true },
      diary: { read: true, history: true },
    },
  },
  agent: {
    admin: true,
    grants: {
      user: { read: { columns: ['team'] } },
      item: {
        read: {
          columns: ['name', 'team', 'amount', 'due', 'parent', 'flag', 'big', 'kind'],
          rows: ['team__lead=$me', '-flag__is=false&kind=b'],
        },
        history: true,
      },
      part: { read: { columns: ['label'], rows: 'item__team__lead=$me' }, history: true },
    },
  },
  auditor: { admin: true, grants: { '*': { read: true, export: true, history: true } } },
} satisfies Roles;

/** The users, whose keys are their positions from 1. */
const USERS: readonly (readonly [
  name: string,
  team: number | null,
  roles: readonly string[],
  isAdmin?: true,
])[] = [
  ['ada', null, [], true],
  ['cleo', 1, ['clerk']],
  ['alf', 2, ['agent']],
  ['both', 1, ['clerk', 'agent']],
  ['bob', 3, ['boss']],
  ['paul', 2, []],
  ['aud', null, ['auditor']],
  ['lost', null, ['clerk']],
  ['zed', 4, []],
  ['yan', 1, []],
];

/** The leads of the teams. */
const LEADS = [5, 3, 4, 8];

/** What a caller sees of a table, as SQL conditions about its row `t`: none if it is absent. */
interface Seen {
  readonly rows: string;
  /** The columns that are seen in these rows, or only in those of a narrower condition. */
  readonly columns: Readonly<Record<string, string>>;
}

export interface Case {
  readonly caller: string | undefined;
  /** The models of a token that may only read. */
  readonly token?: readonly string[];
  readonly surface: Surface;
  readonly sees: Readonly<Partial<Record<string, Seen>>>;
  /** The models whose history is seen, `all` for that of all records. By default those whose records are. */
  readonly history?: readonly string[] | 'all';
}

const all = (rows: string, ...columns: string[]): Seen => ({
  rows,
  columns: Object.fromEntries(columns.flatMap((list) => list.split(' ')).map((name) => [name, rows])),
});

const ITEM =
  'name team_id parent_id owner_id vault_id amount count big due at flag locked kind tags data code';
const PART = 'label up_item up_pos';
const TEAM = 'name lead_id';
const lockedItem = '(select i.locked from item i where i.id = t.item_id)';
const NOTE = 'text item_id owner_id diary_id';
const notesOf = (me: number | null, more = 'false'): Seen =>
  all(`(t.owner_id = ${me ?? 'null'} or (${lockedItem}) is not true or ${more})`, NOTE);
const diariesOf = (me: number): Seen => all(`(t.owner_id = ${me}) is true`, 'text item_id owner_id');
const teamOf = (column: string): string => `(select i.team_id from item i where i.id = t.${column})`;
const ledBy = (me: number, ofTeam: string): string =>
  `exists (select from team x where x.id = ${ofTeam} and x.lead_id = ${me})`;

/** What the admin area shows of items: `admin.exclude` hides the code. */
const withoutCode = ({ rows, columns }: Seen): Seen => ({ rows, columns: { ...columns, code: 'false' } });

/** The same with what the view shows of flagged items. */
function withOverview(seen: Seen): Seen {
  if (seen.rows === 'true') return seen;
  const columns = { ...seen.columns };
  for (const name of ['name', 'team_id', 'amount', 'flag'])
    columns[name] = `(${columns[name] ?? 'false'} or t.flag is true)`;
  return { rows: `(${seen.rows} or t.flag is true)`, columns };
}

const NOTHING: Seen = { rows: 'false', columns: {} };
const teams = all('true', TEAM);
const bossTeams = all('true', TEAM, 'budget');
const clerkItems = (mine: string): Seen => all(`(t.team_id = ${mine}) is true`, ITEM.replace(' big', ''));
const agentRows = (me: number): string =>
  `(${ledBy(me, 't.team_id')} or ((t.flag is false) is not true and t.kind = 'b'))`;
const agentItems = (me: number): Seen =>
  all(agentRows(me), 'name team_id amount due parent_id flag big kind');
const clerkParts = (mine: string): Seen => all(`(${teamOf('item_id')} = ${mine}) is true`, PART);
const agentParts = (me: number): Seen => all(ledBy(me, teamOf('item_id')), 'label');
const clerkUsers = (mine: string): Seen => all(`(t.team_id = ${mine}) is true`, 'username team_id');

function union(one: Seen, other: Seen): Seen {
  const names = new Set([...Object.keys(one.columns), ...Object.keys(other.columns)]);
  return {
    rows: `(${one.rows} or ${other.rows})`,
    columns: Object.fromEntries(
      [...names].map((name) => [
        name,
        `(${[one, other].flatMap(({ columns }) => columns[name] ?? []).join(' or ')})`,
      ]),
    ),
  };
}

const myNotes = (mine: string): string => `(${teamOf('item_id')} = ${mine}) is true`;

const ALL_USERS = 'username join_date active admin team_id';
/** What the API and the admin area show alike. */
const SEEN = {
  cleo: {
    user: clerkUsers('1'),
    item: clerkItems('1'),
    part: clerkParts('1'),
    diary: diariesOf(2),
  },
  alf: { user: all('true', 'team_id'), item: agentItems(3), part: agentParts(3) },
  both: {
    user: union(clerkUsers('1'), all('true', 'team_id')),
    item: union(clerkItems('1'), agentItems(4)),
    part: union(clerkParts('1'), agentParts(4)),
    diary: diariesOf(4),
  },
  bob: {
    user: all('true', ALL_USERS),
    team: bossTeams,
    item: all('true', ITEM, 'salary'),
    part: all('true', PART, 'price'),
  },
  ada: {
    user: all('true', ALL_USERS, 'role'),
    team: bossTeams,
    item: all('true', ITEM, 'salary'),
    part: all('true', PART, 'price'),
    vault: all('true', 'name'),
    note: all('true', NOTE),
    diary: diariesOf(1),
  },
};
const locals = all('t.id = 1', TEAM);
const notes = (rows: string): Seen => all(rows, NOTE);

export const CASES: readonly Case[] = [
  { caller: undefined, surface: 'api', sees: { note: notesOf(null) } },
  { caller: 'paul', surface: 'api', sees: { team: teams, note: notesOf(6), diary: diariesOf(6) } },
  {
    caller: 'cleo',
    surface: 'api',
    sees: { ...SEEN.cleo, team: teams, note: notesOf(2, myNotes('1')) },
  },
  {
    caller: 'cleo',
    token: ['item', 'part'],
    surface: 'api',
    sees: { item: SEEN.cleo.item, part: SEEN.cleo.part, note: notesOf(null) },
    history: ['item', 'part'],
  },
  {
    caller: 'alf',
    surface: 'api',
    sees: { ...SEEN.alf, team: teams, note: notesOf(3), diary: diariesOf(3) },
  },
  {
    caller: 'both',
    surface: 'api',
    sees: { ...SEEN.both, team: teams, note: notesOf(4, myNotes('1')) },
  },
  { caller: 'lost', surface: 'api', sees: { team: teams, note: notesOf(8), diary: diariesOf(8) } },
  { caller: 'bob', surface: 'api', sees: { ...SEEN.bob, note: notesOf(5), diary: diariesOf(5) } },
  { caller: 'ada', surface: 'api', sees: SEEN.ada },
  { caller: 'ada', token: ['note'], surface: 'api', sees: { note: SEEN.ada.note }, history: ['note'] },
  {
    caller: 'cleo',
    surface: 'admin',
    sees: { ...SEEN.cleo, team: locals, note: notes(myNotes('1')) },
    history: ['item', 'diary'],
  },
  { caller: 'alf', surface: 'admin', sees: SEEN.alf, history: ['item', 'part'] },
  {
    caller: 'both',
    surface: 'admin',
    sees: { ...SEEN.both, team: locals, note: notes(myNotes('1')) },
    history: ['item', 'part', 'diary'],
  },
  { caller: 'lost', surface: 'admin', sees: { diary: diariesOf(8) } },
  { caller: 'bob', surface: 'admin', sees: SEEN.bob, history: ['item', 'part'] },
  {
    caller: 'aud',
    surface: 'admin',
    sees: {
      user: all('true', ALL_USERS, 'role'),
      team: teams,
      item: all('true', ITEM),
      part: all('true', PART),
      vault: all('true', 'name'),
      note: notes('true'),
      diary: diariesOf(7),
    },
  },
  {
    caller: 'ada',
    surface: 'admin',
    sees: {
      ...SEEN.ada,
      user: all('true', ALL_USERS, 'role email'),
      item: all('true', ITEM, 'salary secret'),
    },
    history: 'all',
  },
];

const WORDS = ['ape', 'Bat', 'cat', 'dog', 'eel', 'fox', 'a_b', 'zoë'];
const pick = (list: string): string =>
  `(array[${list}])[1 + floor(random() * ${list.split(',').length})::int]`;
const words = pick(WORDS.map((word) => `'${word}'`).join());
const orNull = (sql: string): string => `case when random() < 0.2 then null else ${sql} end`;
const keyOf = (table: string): string => `(select id from ${table} order by random() limit 1)`;

/** Random values as SQL, by table and column. */
const VALUES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  user: {
    email: `${words} || '@' || random()`,
    join_date: `timestamp '2024-01-01' + floor(random() * 900) * interval '1 day'`,
  },
  team: { name: words, budget: orNull('floor(random() * 9)::int') },
  vault: { name: words },
  item: {
    name: words,
    owner_id: orNull('1 + floor(random() * 10)::int'),
    vault_id: orNull(keyOf('vault')),
    parent_id: orNull(keyOf('item')),
    amount: orNull('floor(random() * 9)'),
    count: orNull('floor(random() * 9)::int'),
    big: orNull('floor(random() * 9)::int'),
    due: orNull(`date '2024-01-01' + floor(random() * 60)::int`),
    at: orNull(`timestamp '2024-01-01' + floor(random() * 60) * interval '1 day'`),
    tags: orNull(`array[${words}, ${words}]`),
    data: orNull(`jsonb_build_object('k', floor(random() * 4))`),
    code: orNull('md5(random()::text)::uuid'),
    secret: orNull(words),
    salary: orNull('floor(random() * 9)::int'),
    team_id: orNull('1 + floor(random() * 4)::int'),
    flag: pick('true, false, null'),
    locked: pick('true, false, null'),
    kind: pick(`'a', 'b', 'c'`),
  },
  part: { label: orNull(words), price: orNull('floor(random() * 9)') },
  diary: { text: words, item_id: orNull(keyOf('item')), owner_id: orNull('1 + floor(random() * 10)::int') },
  note: {
    text: words,
    item_id: orNull(keyOf('item')),
    owner_id: orNull('1 + floor(random() * 10)::int'),
    diary_id: orNull(keyOf('diary')),
  },
};

/** Columns that rules name: another value could make a record visible, or hide one. */
const FROZEN: Readonly<Record<string, readonly string[]>> = {
  user: ['username', 'password', 'active', 'admin', 'role', 'team_id'],
  team: ['lead_id'],
  item: ['team_id', 'locked', 'kind', 'flag', 'owner_id'],
  diary: ['owner_id'],
  note: ['item_id', 'owner_id'],
};

const quote = (name: string): string => `"${name}"`;

const insertRandom = (table: string, from: number, count: number): string => {
  const columns = VALUES[table] ?? {};
  // Each value refers to the row, so that PostgreSQL computes it once per row.
  const values = Object.values(columns).map((value) => `(select ${value} where n is not null)`);
  return `insert into ${quote(table)} (id, ${Object.keys(columns).map(quote).join()}) select n, ${values.join()} from generate_series(${from}, ${from + count - 1}) n`;
};

const insertParts = (from: number, to: number): string =>
  `insert into part (item_id, pos, label, price) select i.id, n, (select ${VALUES['part']?.['label'] ?? ''} where n > 0), (select ${VALUES['part']?.['price'] ?? ''} where n > 0) from item i, generate_series(1, 2) n where i.id between ${from} and ${to} and random() < 0.6;
   update part p set up_item = o.item_id, up_pos = o.pos from part o where o.pos = 1 and p.pos = 2 and o.item_id = p.item_id`;

const RECORDED = ['user', 'team', 'item', 'part', 'vault', 'diary', 'note'];
const recordKey = (model: string): string => (model === 'part' ? `t.item_id || ',' || t.pos` : 't.id::text');

/** Ids of the history's entries by model: those of all records, between which there is room for hidden ones. */
const idsOf = (model: string): number => 10_000 * RECORDED.indexOf(model) + 2000;

/** Entries of the history about records of a model, as JSON with all columns. Their ids are ten apart. */
const insertHistory = (from: number, model: string, where: string): string =>
  `insert into vitrine_history (id, at, user_key, user_name, door, action, model, record, before, after, batch, cause)
   select ${from} + 10 * row_number() over (), timestamp '2024-05-05' + row_number() over () * interval '1 minute', '1', 'ada', 'admin',
     (array['create', 'update', 'update', 'delete'])[1 + floor(random() * 4)::int], '${model}', ${recordKey(model)}, to_json(t)::text, to_json(t)::text,
     case when random() < 0.5 then 'b' || floor(random() * 9) end, case when random() < 0.5 then 'item/' || floor(random() * 40) end
   from ${quote(model)} t where ${where}`;

/** Keys of entries of the history, visible and hidden ones. */
const entryKey = fc
  .tuple(
    fc.constantFrom(...RECORDED, 'item', 'item'),
    fc.integer({ min: 1, max: 25 }),
    fc.constantFrom(0, 0, 0, 5, 7),
  )
  .map(([model, row, hidden]) => String(idsOf(model) + 10 * row + hidden));

export const SIZES = { item: 40, hidden: 25 };

/** Fills both databases alike. */
async function fill(sql: Sql, seed: number, hashes: readonly string[]): Promise<void> {
  await sql.begin(async (one) => {
    await one.unsafe('alter table vitrine_history disable trigger all');
    await one.unsafe(
      'truncate "user", team, item, part, vault, diary, note, vitrine_history, vitrine_event cascade',
    );
    await one.unsafe(`delete from vitrine_token where label = 'hidden'`);
    await one.unsafe(`select setseed(${(seed % 1000) / 1000})`);
    const users = USERS.map(
      ([name, , names, isAdmin], index) =>
        `(${index + 1}, '${name}', '${hashes[index] ?? ''}', '${name}@x', '2024-01-01', true, ${isAdmin === true}, '{${names.join()}}')`,
    );
    await one.unsafe(
      `insert into "user" (id, username, password, email, join_date, active, admin, role) values ${users.join()}`,
    );
    const led = LEADS.map((lead, index) => `(${index + 1}, 'team ${index + 1}', ${lead}, ${index})`);
    await one.unsafe(`insert into team (id, name, lead_id, budget) values ${led.join()}`);
    for (const [index, [, at]] of USERS.entries())
      if (at !== null) await one.unsafe(`update "user" set team_id = ${at} where id = ${index + 1}`);
    await one.unsafe(insertRandom('vault', 1, 4));
    await one.unsafe(insertRandom('item', 1, SIZES.item));
    await one.unsafe(`update item set parent_id = 1 + floor(random() * 20)::int where random() < 0.7`);
    await one.unsafe(insertParts(1, SIZES.item));
    await one.unsafe(insertRandom('diary', 1, 20));
    await one.unsafe(insertRandom('note', 1, 30));
    for (const model of RECORDED) await one.unsafe(insertHistory(idsOf(model), model, 'random() < 0.5'));
  });
}

type Run = (text: string) => Promise<unknown>;

/** Changes what a caller does not see: hidden values, and records that come and go. */
async function change(sql: Sql, seed: number, one: Case): Promise<void> {
  const { caller, surface } = one;
  const item = one.sees['item'] ?? NOTHING;
  const sees: Case['sees'] = {
    ...one.sees,
    item: surface === 'api' ? withOverview(item) : withoutCode(item),
  };
  const isSeen = (table: string): string => sees[table]?.rows ?? 'false';
  await sql.begin(async (transaction) => {
    const run: Run = (text) => transaction.unsafe(text);
    await run(`select setseed(-${((seed % 997) + 1) / 1000})`);
    const shares = async (sql: string): Promise<number> =>
      Number((await transaction.unsafe<{ n: string }[]>(`select count(*) as n from ${sql}`))[0]?.n ?? 0);
    // New users and vaults, seen by those who see all of them.
    if (isSeen('vault') === 'false') {
      await run(insertRandom('vault', 101, 6));
      await run(
        `update item t set vault_id = null where not ${sees['item']?.columns['vault_id'] ?? 'false'}`,
      );
      await run(
        `delete from vault v where random() < 0.7 and not exists (select from item i where i.vault_id = v.id)`,
      );
    }
    // Records that go. Visible ones may refer to hidden ones, which then stay.
    const unreferenced = `not exists (select from item o where o.parent_id = t.id) and not exists (select from note o where o.item_id = t.id) and not exists (select from diary o where o.item_id = t.id)`;
    await run(`delete from note t where not ${isSeen('note')} and random() < 0.6`);
    await run(
      `delete from diary t where not ${isSeen('diary')} and not exists (select from note o where o.diary_id = t.id) and random() < 0.6`,
    );
    if (isSeen('item') !== 'true') {
      await run(
        `delete from part t where not ${isSeen('part')} and not exists (select from part o where o.up_item = t.item_id and o.up_pos = t.pos and (o.item_id, o.pos) <> (t.item_id, t.pos)) and random() < 0.5`,
      );
      await run(
        `delete from item t where not ${isSeen('item')} and ${unreferenced} and not exists (select from part o where o.item_id = t.id) and random() < 0.7`,
      );
      // Records that come, without those that the caller would see.
      const before = await shares('item');
      await run(insertRandom('item', 101, SIZES.hidden));
      await run(`update item set parent_id = null where parent_id > 100 and id <= 100`);
      await run(`update item set parent_id = id where id > 100 and random() < 0.3`);
      await run(`update item set parent_id = null where id > 100 and parent_id <> id`);
      await run(`delete from item t where id > 100 and ${isSeen('item')}`);
      if ((await shares('item')) === before) throw new Error(`${caller ?? 'anyone'}: no hidden record`);
      await run(insertParts(101, 101 + SIZES.hidden));
      await run(`delete from part t where item_id > 100 and ${isSeen('part')}`);
    }
    await run(`update "user" set password = random()::text where username = 'zed'`);
    const parents = sees['part']?.columns['up_item'] ?? 'false';
    await run(`update part t set up_item = null, up_pos = null where not ${parents} and random() < 0.7`);
    await run(insertRandom('diary', 101, 10));
    await run(`delete from diary t where id > 100 and ${isSeen('diary')}`);
    await run(insertRandom('note', 101, 20));
    await run(`delete from note t where id > 100 and ${isSeen('note')}`);
    for (const [table, values] of Object.entries(VALUES)) {
      const { columns = {} } = sees[table] ?? {};
      for (const [name, value] of Object.entries(values)) {
        if (FROZEN[table]?.includes(name) || name === 'vault_id' || name === 'parent_id') continue;
        const hidden = `not (${columns[name] ?? 'false'})`;
        await run(
          `update ${quote(table)} t set ${quote(name)} = (select ${value} where t.id is not null) where ${hidden}`.replaceAll(
            't.id is',
            table === 'part' ? 't.pos is' : 't.id is',
          ),
        );
      }
    }
    await changeHistory(run, seed, surface === 'api' ? one : { ...one, sees });
  });
}

/** Changes the entries that a caller does not see, and the values in those that it sees. */
async function changeHistory(
  run: Run,
  seed: number,
  { caller, sees, surface, history }: Case,
): Promise<void> {
  const shown = history ?? Object.keys(sees);
  for (const model of RECORDED) {
    const { rows = 'false', columns = {} } = sees[model] ?? {};
    const seen = shown === 'all' ? 'true' : shown.includes(model) ? rows : 'false';
    const ofSeen = `exists (select from ${quote(model)} t where ${recordKey(model)} = h.record and ${seen})`;
    if (shown !== 'all') {
      await run(
        `delete from vitrine_history h where model = '${model}' and not ${ofSeen} and random() < 0.5`,
      );
      await run(insertHistory(idsOf(model) + 5, model, `not (${seen})`));
      // Changes of values that no one sees, in records that the caller sees. Some seeds have more than one part of the feed has.
      const from = [idsOf(model) + 7, ...Array.from({ length: 24 }, (_, turn) => 100_000 * (turn + 1))];
      for (const first of model === 'item' && seed % 5 === 0 ? from : from.slice(0, 1))
        await run(
          `insert into vitrine_history (id, door, action, model, record, before, after, batch)
           select ${first} + 10 * row_number() over (), 'api', 'update', '${model}', ${recordKey(model)}, '{"hidden":1}', '{"hidden":2}', case when random() < 0.5 then 'b1' end
           from ${quote(model)} t`,
        );
      // What happened to other records that had the same keys, before these were added.
      if (rows !== 'true')
        for (const [offset, action] of ['update', 'delete'].entries())
          await run(
            `insert into vitrine_history (id, door, action, model, record, before, after)
             select ${idsOf(model) - 2000 + offset} + 10 * row_number() over (), 'api', '${action}', '${model}', ${recordKey(model)}, to_json(t)::text, to_json(t)::text
             from ${quote(model)} t where ${rows} and hashtext(${recordKey(model)}) % 2 = 0`,
          );
    }
    // The values that only some records show are in no entry.
    const whole = Object.keys(columns).filter((name) => columns[name] === rows);
    const open = ['id', ...(model === 'part' ? ['item_id', 'pos'] : []), ...whole];
    const masked = (side: string): string =>
      `(select coalesce(json_object_agg(k, case when k = any('{${open.join()}}') then v else to_json(random()::text) end), '{}')::text from json_each(h.${side}::json) e (k, v) where k = any('{${open.join()},password}') or random() < 0.7)`;
    await run(
      `update vitrine_history h set before = ${masked('before')}, after = ${masked('after')} where model = '${model}'`,
    );
    // Who sees all records of a model knows which of them causes name.
    if (model === 'item' && shown !== 'all' && !(shown.includes('item') && rows === 'true'))
      await run(`update vitrine_history set cause = 'item/' || floor(random() * 99) where cause is not null`);
  }
  if (surface === 'api' && sees['user']?.columns['username'] !== 'true')
    await run(`update vitrine_history set user_key = '2', user_name = 'cleo' where random() < 0.5`);
  if (shown === 'all') return;
  await run(`update vitrine_history set roles = 'boss', address = '::2', request = 'r' where random() < 0.5`);
  if (caller !== 'ada')
    await run(
      `insert into vitrine_token (id, user_key, secret_hash, label) values (9000, '9', 'none', 'hidden')`,
    );
  await run(
    `insert into vitrine_event (event, user_name, detail) select 'login', 'ada', n from generate_series(1, 3) n`,
  );
}

export interface Pair {
  readonly bases: readonly [string, string];
  /** Makes both databases alike, with a case but for what it does not see. */
  readonly differ: (seed: number, one: Case | undefined) => Promise<void>;
  readonly close: () => Promise<void>;
}

const OVERVIEW = `create view overview as select id, name, team_id, amount, flag, secret from item`;

/** Panels are for admins. */
const SALARIES = {
  title: 'Salaries',
  load: async ({ query }) => String((await query('select sum(salary) as sum from item'))[0]?.['sum']),
} satisfies Panel;

/** Starts two services whose databases have the same secret, so that their cursors are alike. */
export async function startPair(): Promise<Pair> {
  const settings = { roles, trustProxy: 0, changes: 'default', panels: [SALARIES] } as const;
  const role = `clubhouse_${randomBytes(4).toString('hex')}`;
  const makeTables = async ({ sql, url }: TestDatabase): Promise<void> => {
    const tables = resources.filter(({ model }) => model !== 'overview');
    await (await startBeside(url, tables, settings)).close();
    await sql
      .unsafe(
        `${OVERVIEW}; ${POLICY}; ${WITHOUT_AUTOVACUUM}; ${OTHER_KEYS}; grant all on all tables in schema public to ${role}`,
      )
      .simple();
  };
  const databases = await Promise.all([createDatabase(), createDatabase()]);
  const [first, second] = databases;
  await first.sql.unsafe(`create role ${role} login password 'x'`);
  await Promise.all(databases.map(makeTables));
  const secrets = await first.sql<{ name: string; value: string }[]>`select name, value from vitrine_secret`;
  for (const { name, value } of secrets)
    await second.sql`insert into vitrine_secret (name, value) values (${name}, ${value}) on conflict (name) do update set value = excluded.value`;
  // As a role that the policy binds.
  const services = await Promise.all(
    databases.map((one) => startBeside(addressOf(one, role), resources, { ...settings, schema: 'check' })),
  );
  const hashes = await Promise.all(USERS.map(([name]) => cheapHash(`pw-${name}`)));
  return {
    bases: [services[0]?.base ?? '', services[1]?.base ?? ''],
    async differ(seed, one) {
      await Promise.all(databases.map(({ sql }) => fill(sql, seed, hashes)));
      if (one) await change(second.sql, seed, one);
      // For estimates, which only this model gives for so few records.
      await Promise.all(databases.map(({ sql }) => sql.unsafe('analyze part')));
    },
    async close() {
      await Promise.all(services.map((service) => service.close()));
      await first.drop();
      await second.sql.unsafe(`drop owned by ${role}; drop role ${role}`).simple();
      await second.drop();
    },
  };
}

const MODELS = resources.map(({ model }) => model);

/** The columns that paths can name, with the model that they lead to. */
const PATHS: Readonly<Record<string, readonly (readonly [name: string, target?: string])[]>> =
  Object.fromEntries(
    [...resources, HISTORY, EVENT].map(({ model, columns, foreignKeys = {} }: Resource) => [
      model,
      [
        ['id'],
        ...Object.entries(columns).map(([name, column]): [string, string?] =>
          column?.type === 'foreignKey' ? [name, column.references] : [name],
        ),
        ...Object.entries(foreignKeys).map(([name, { references }]): [string, string] => [name, references]),
      ],
    ]),
  );

const OPERATORS = [
  '',
  '',
  '__eq',
  '__ne',
  '__lt',
  '__lte',
  '__gt',
  '__gte',
  '__in',
  '__is',
  '__like',
  '__ilike',
  '__contains',
];
const TEXTS = [
  ...WORDS,
  '%a%',
  '_a%',
  'ape,cat',
  '1',
  '2',
  '3',
  '5',
  '1,2,3',
  '0',
  'true',
  'false',
  'null',
  '2024-01-20',
  '2024-02-01 00:00:00',
  '{"k":1}',
  '2,1',
  '101',
  '110',
  '9',
  'item',
  'item/5',
  'ada',
  'b1',
  '',
];

const path = (model: string): fc.Arbitrary<string> =>
  fc.array(fc.nat(), { minLength: 1, maxLength: 4 }).map((choices) => {
    let at: string | undefined = model;
    const names: string[] = [];
    for (const choice of choices) {
      const list: readonly (readonly [string, string?])[] = (at && PATHS[at]) || [];
      const [name, target] = list[choice % Math.max(1, list.length)] ?? [];
      if (name === undefined) break;
      names.push(name);
      at = target;
    }
    return names.join('__');
  });

const filter = (model: string): fc.Arbitrary<string> =>
  fc
    .tuple(
      fc.constantFrom('', '', '-'),
      path(model),
      fc.constantFrom(...OPERATORS),
      fc.constantFrom(...TEXTS),
    )
    .map(([sign, name, operator, text]) => `${sign}${name}${operator}=${encodeURIComponent(text)}`);

const order = (model: string): fc.Arbitrary<string> =>
  fc
    .array(fc.tuple(fc.constantFrom('', '-'), path(model)), { minLength: 1, maxLength: 2 })
    .map((list) => `ordering=${list.map(([sign, name]) => `${sign}${name}`).join()}`);

const query = (model: string): fc.Arbitrary<string> =>
  fc
    .tuple(
      fc.array(filter(model), { maxLength: 2 }),
      fc.option(order(model), { freq: 2 }),
      fc.constantFrom('', 'limit=3', 'limit=1&page=2', 'limit=100', 'limit=50'),
    )
    .map(([filters, ordering, paging]) =>
      [...filters, ordering ?? '', paging].filter((one) => one !== '').join('&'),
    );

const KEYS = [
  ...Array.from({ length: 42 }, (_, index) => String(index + 1)),
  ...['101', '105', '110', '0', 'x', '1,1', '2,1', '3,2', '5,1', '101,1'],
];
const key = fc.constantFrom(...KEYS);

export interface Asked {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT';
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly body?: string;
  readonly form?: Record<string, string>;
}

const ACCEPTED = ['application/json', 'application/json', 'text/csv', 'application/x-ndjson', 'text/html'];
const PREFERRED = [
  '',
  '',
  'count=exact',
  'count=capped',
  'count=estimated',
  'paging=cursor',
  'paging=cursor, count=exact',
  'paging=none',
];

const asked = (path: string, headers: Record<string, string> = {}): Asked => ({
  method: 'GET',
  path,
  headers,
});

const ofApi: fc.Arbitrary<Asked> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc
      .constantFrom('item', 'item', 'item', ...MODELS)
      .chain((model) =>
        fc.record({
          model: fc.constant(model),
          text: query(model),
          accept: fc.constantFrom(...ACCEPTED),
          prefer: fc.constantFrom(...PREFERRED),
          method: fc.constantFrom('GET' as const, 'GET' as const, 'GET' as const, 'HEAD' as const),
        }),
      )
      .map(({ model, text, accept, prefer, method }) => ({
        method,
        path: `/api/${model}/?${text}`,
        headers: { accept, ...(prefer === '' ? {} : { prefer }) },
      })),
  },
  {
    weight: 4,
    arbitrary: fc
      .tuple(fc.constantFrom('item', ...MODELS), key, fc.constantFrom('application/json', 'text/html'))
      .map(([model, id, accept]) => asked(`/api/${model}/${id}/`, { accept })),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      asked('/api/openapi.json'),
      asked('/api/'),
      asked('/api/', { accept: 'text/html' }),
      asked('/api/-/me/'),
      asked('/api/part/', { prefer: 'count=estimated' }),
      asked('/api/-/tokens/'),
      asked('/metrics'),
    ),
  },
  {
    weight: 1,
    arbitrary: fc
      .constantFrom('application/json', 'application/x-ndjson', 'text/html')
      .map((accept) => asked('/api/-/changes/', { accept })),
  },
  // Writes that are refused for their last field say what they say of the others.
  {
    weight: 1,
    arbitrary: fc
      .tuple(
        fc.constantFrom('item', ...MODELS),
        fc.constantFrom('', '', ...KEYS),
        fc.constantFrom('name', 'team_id', 'owner_id', 'vault_id', 'parent_id', 'diary_id', 'item_id', 'secret', 'salary', 'id'), // prettier-ignore
        fc.constantFrom(1, 3, 5, 9, 20, 101, 110, null, 'ape'),
      )
      .map(([model, id, name, value]): Asked => ({
        method: id === '' ? 'POST' : 'PUT',
        path: `/api/${model}/${id === '' ? '' : `${id}/`}`,
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ [name]: value, unknown: 1 }),
      })),
  },
);

const ofArea: fc.Arbitrary<Asked> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc
      .constantFrom('item', 'item', ...MODELS, 'vitrine_history', 'vitrine_event')
      .chain((model) =>
        fc.record({
          model: fc.constant(model),
          text: query(model),
          search: fc.constantFrom('', '', ...WORDS, '1', 'ad', 'team 2', 'ape cat'),
          page: fc.constantFrom(
            '',
            '',
            '-/filter/',
            '-/lookup/',
            '-/export.csv',
            '-/export.json',
            '-/export.excel.csv',
            '-/add/',
          ),
          opened: fc.constantFrom(
            '',
            '&_has.team=ape&_columns=team',
            '&_has.owner__email=a&_columns=email',
            '&_path=secret&_how=eq&_value=1&_columns=secret',
            '&_is.kind=%3Dx&_find.owner=ad',
          ),
        }),
      )
      .map(({ model, text, search, page, opened }) =>
        asked(
          `/admin/${model}/${page}?${text}${search === '' ? '' : `&_search=${encodeURIComponent(search)}`}${opened}`,
        ),
      ),
  },
  {
    weight: 4,
    arbitrary: fc
      .tuple(
        fc.constantFrom('item', 'item', ...MODELS, 'vitrine_event'),
        key,
        fc.constantFrom('', '', 'history/', 'delete/', 'password/', 'access/', 'second-factor/'),
      )
      .map(([model, id, page]) => asked(`/admin/${model}/${id}/${page}`)),
  },
  {
    weight: 3,
    arbitrary: fc
      .tuple(
        entryKey,
        fc.constantFrom('', 'undo/', '?_entry='),
        fc.constantFrom('item', 'part', 'diary'),
        key,
      )
      .map(([entry, page, model, id]) =>
        asked(
          page === '?_entry='
            ? `/admin/${model}/${id}/${page}${entry}`
            : `/admin/vitrine_history/${entry}/${page}`,
        ),
      ),
  },
  {
    weight: 2,
    arbitrary: fc
      .tuple(
        fc.constantFrom(
          '',
          'model=item',
          'before__like=%25a%25',
          'after__ilike=%25ape%25',
          'record=5',
          'ordering=after',
          '_search=ape',
          '_search=cat',
          'action=delete',
          'limit=200',
          '-record__is=null',
          'batch=b1',
          'cause__like=item/1%25',
          'ordering=cause',
        ),
        fc.constantFrom('', '-/export.csv', '-/lookup/'),
      )
      .map(([text, page]) => asked(`/admin/vitrine_history/${page}?${text}`)),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      asked('/admin/'),
      asked('/admin/-/keys/'),
      asked('/admin/-/account/'),
      asked('/admin/vitrine_event/'),
    ),
  },
  {
    weight: 2,
    arbitrary: fc
      .record({
        model: fc.constantFrom('item', ...MODELS),
        action: fc.constantFrom('delete', 'set', 'export.csv', 'export.json'),
        column: fc.constantFrom('name', 'team_id', 'owner_id', 'secret', 'salary', 'amount'),
        value: fc.constantFrom('', '1', 'ape', '105'),
        state: query('item'),
        ids: fc.option(key),
        find: fc.option(fc.constantFrom('a', '1', 'e')),
      })
      .map(({ model, action, column, value, state, ids, find }): Asked => ({
        method: 'POST',
        path: `/admin/${model}/-/bulk/`,
        headers: {},
        form: {
          _state: state,
          _action: action,
          ...(find === null
            ? { _column: column, [column]: value, ...(value !== '' && { _value: '1' }) }
            : { _in: column, _replace: find, _with: value, _value: '1' }),
          ...(ids === null ? { _all: '1' } : { _id: ids }),
        },
      })),
  },
  // The preview of an import, and forms with a fault, or whose words are searched.
  {
    weight: 2,
    arbitrary: fc
      .record({
        model: fc.constantFrom('item', 'item', ...MODELS),
        columns: fc.subarray(['name', 'team_id', 'owner_id', 'vault_id', 'amount', 'secret', 'salary', 'text', 'item_id'], { minLength: 1, maxLength: 2 }), // prettier-ignore
        rows: fc.array(fc.tuple(key, fc.constantFrom('1', '3', '105', 'ape', '')), {
          minLength: 1,
          maxLength: 4,
        }),
        page: fc.constantFrom('-/import/', '-/import/', '-/add/', '5/'),
        lookup: fc.constantFrom(undefined, 'owner_id', 'team_id', 'parent_id'),
      })
      .map(({ model, columns, rows, page, lookup }): Asked => {
        // Another team would bring a record into what the caller sees, as the write itself does.
        const imported = columns.filter((name) => name !== 'team_id');
        const lines = rows.map(([id, text]) => [JSON.stringify(id), ...imported.map(() => text)].join());
        const typed = Object.fromEntries(columns.map((name, index) => [name, rows[index]?.[1] ?? 'ape']));
        return {
          method: 'POST',
          // Only items have a count, whose fault keeps forms from being saved.
          path: `/admin/${page.endsWith('import/') ? model : 'item'}/${page}`,
          headers: {},
          form: page.endsWith('import/')
            ? { _text: [['id', ...imported].join(), ...lines].join('\n') }
            : { ...typed, count: 'x', ...(lookup !== undefined && { _lookup: lookup }) },
        };
      }),
  },
);

export const requestsOf = (surface: Surface): fc.Arbitrary<Asked> => (surface === 'api' ? ofApi : ofArea);
