// Writes the results as Markdown.
import { EXPLAINED } from './by-hand.ts';
import type { Filled, Refusal } from './fill.ts';
import type { Trial } from './trial.ts';

const row = (cells: readonly (string | number)[]): string => `| ${cells.join(' | ')} |`;

const table = (head: readonly string[], rows: readonly (readonly (string | number)[])[]): string =>
  [row(head), row(head.map(() => '---')), ...rows.map(row)].join('\n');

/** Why a write was refused: PostgreSQL's message, without the sentence of Vitrine before it. */
export function reasonOf({ status, text }: Refusal): string {
  const detail = /"detail":("(?:[^"\\]|\\.)*")/.exec(text)?.[1];
  const shown = /Cannot delete: .*?”/.exec(text)?.[0] ?? text.slice(0, 200);
  const message = detail === undefined ? shown : (JSON.parse(detail) as string);
  return status === 0
    ? message
    : message.replace(/^(?:The database|A rule|Other|A record|A value)[^:]*: /, '');
}

/** Refusals that are no rule of the schema, but an error of the service. */
export const unexplained = ({ name, api, admin }: Trial): Refusal[] =>
  [...api.refused, ...admin.refused].filter(
    ({ model, step, status }) =>
      ![0, 400, 409].includes(status) && EXPLAINED[`${name}: ${step} ${model}`] === undefined,
  );

/** The reason for which a table is not served. */
const kindOf = (note: string): string => note.replace(/^.* is not served: /, '');

function kindsOf({ notes }: Trial): string {
  const counts = new Map<string, number>();
  for (const note of notes) counts.set(kindOf(note), (counts.get(kindOf(note)) ?? 0) + 1);
  return [...counts].map(([kind, count]) => `${count}: ${kind}`).join('; ') || 'none';
}

const written = ({ created, changed, deleted }: Filled): string => `${created}, ${changed}, ${deleted}`;

/** What was refused by the API, and what only the admin area refused. */
function refusals({ name, api, admin }: Trial): string[] {
  const only = admin.refused.filter(
    ({ model, step }) => !api.refused.some((one) => one.model === model && one.step === step),
  );
  const line = (place: string, refusal: Refusal): string => {
    const { model, step } = refusal;
    const reason = EXPLAINED[`${name}: ${step} ${model}`] ?? reasonOf(refusal);
    return `- ${name}, ${step} ${model}${place}: ${reason.replaceAll('|', '\\|')}`;
  };
  return [
    ...api.refused.map((refusal) => line('', refusal)),
    ...only.map((refusal) => line(' in the admin area', refusal)),
  ];
}

export function report(trials: readonly Trial[], version: string): string {
  const refused = trials.flatMap(refusals);
  return `# Schemas of other programs

\`npm run schemas\` takes the schemas of ${trials.length} programs from packages of Debian, loads each into an empty database, and serves it as \`vitrine introspect\` prints it: to everyone, and with users and \`ACCESS=admin\`. Nothing is written by hand for a schema except the values and settings in [by-hand.ts](../test/schemas/by-hand.ts).
With PostgreSQL ${version}.

## What is served

Some statements of a schema fail when it is loaded, and the tables and views of these are missing. A table or view whose key nothing proves is served without one, with a likely key in a comment. They were served with that key, too, except those for which \`vitrine check\` found that it is not unique.

${table(
  [
    'schema',
    'package',
    'statements that fail',
    'tables',
    'served',
    'not served',
    'views',
    'served',
    'without a key',
  ],
  trials.map((one) => [
    one.name,
    one.packages,
    one.failed,
    one.tables,
    one.servedTables,
    kindsOf(one),
    one.views,
    one.servedViews,
    one.keyless,
  ]),
)}

Each table without a key has a comment in the registry, with the SQL that would help where there is one.

## What is written

One record of each table was created, changed and deleted, through the API and again through the forms of the admin area. Records that it refers to were created first. A table whose columns are all keys or foreign keys is saved unchanged.
A table with a required column of an unsupported type has neither POST nor a form for new records. One with a required column whose name suggests a secret has no such form; its record was created by the API.

${table(
  [
    'schema',
    'tables with POST',
    'created, changed, deleted by the API',
    'with a form for new records',
    'created, changed, deleted in the admin area',
    'pages in Chromium',
    'faults',
  ],
  trials.map((one) => [
    one.name,
    one.writable.api,
    written(one.api),
    one.writable.admin,
    written(one.admin),
    one.pages,
    one.faults.length + unexplained(one).length,
  ]),
)}

Each page was opened at 1280 and 375 pixels. A fault is an unexpected answer, an error in the log of the service or the console of the browser, or a page that is wider than its window.
${refused.length === 0 ? '' : `\n## What the schemas refuse\n\n${refused.join('\n')}\n`}`;
}
