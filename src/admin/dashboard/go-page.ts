// Go to: finds lists by their titles and records by their labels, in all resources that the caller may read.
import { isKeyless } from '../../db/schema/model.ts';
import type { Reply } from '../../http/message/message.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import { SHOWN_SYSTEM_TABLES } from '../../resources/definition/system-tables.ts';
import { hasAddress } from '../../resources/records/checked-body.ts';
import type { Found as FoundRecords } from '../../resources/records/look-up.ts';
import { loadForEach } from '../fields/optional-part.ts';
import { recentRecords } from '../history/latest-changes.ts';
import type { AdminContext } from '../web/admin-context.ts';
import { LinkParameters, links } from '../web/admin-links.ts';
import { redirect } from '../web/admin-request.ts';
import { shortened } from '../web/display-text.ts';
import { html, type Html } from '../web/html.ts';
import { phrase, t } from '../web/language.ts';
import { pageReply, SAFE_HEADERS } from '../web/layout.ts';
import { recordLinks, type RecordLink } from '../web/widgets.ts';

/** Maximum records of one resource, and results in all. */
const MAX_OF_ONE = 5;
const MAX_RESULTS = 20;
/** Longer words are cut (characters). */
const LONGEST_WORDS = 200;

/** How well a name matches: 0 exactly, 1 if it begins with the words, 2 otherwise. */
function rankOf(name: string, words: string): number {
  const [one, other] = [name.toLowerCase(), words.toLowerCase()];
  return one === other ? 0 : one.startsWith(other) ? 1 : 2;
}

interface Result extends RecordLink {
  readonly rank: number;
}

const byRank = (one: Result, other: Result): number => one.rank - other.rank;

interface Found {
  readonly results: readonly Result[];
  readonly hasMore: boolean;
  /** The resources that could not be searched in time. */
  readonly omitted: readonly AdminView[];
}

/** Whether people look for its records here. */
const isSearched = ({ name, model, search }: AdminView): boolean =>
  search.length > 0 && !isKeyless(model) && !SHOWN_SYSTEM_TABLES.some((one) => one.model === name);

/** The lists come first, then the records; of each, exact matches come first. */
async function find(context: AdminContext, words: string): Promise<Found> {
  const { resources, browsing } = context;
  const all = [...resources.values()];
  const searched = all.filter(isSearched);
  // What begins with the words is shown even if the other matches are not found in time.
  const begun = new Map<AdminView, FoundRecords>();
  const found = await loadForEach(context, 'search result', searched, async (resource) => {
    const first = await browsing.begun(resource, words, MAX_OF_ONE);
    begun.set(resource, first);
    if (first.records.length >= MAX_OF_ONE) return first;
    const { records, hasNext } = await browsing.matching(resource, words, MAX_OF_ONE);
    return { records: [...first.records, ...records], hasNext };
  });
  const lists = all
    .filter(({ title }) => title.toLowerCase().includes(words.toLowerCase()))
    .map(({ name, title }): Result => {
      return { text: title, href: links.list(name), of: t('list'), rank: rankOf(title, words) };
    });
  // In the order of the registry, not in that of the answers.
  const ofEach = searched.map((resource) => {
    const { records = [], hasNext = false } = found.get(resource) ?? begun.get(resource) ?? {};
    const different = [...new Map(records.map((record) => [record.id, record])).values()];
    return {
      resource,
      records: different.slice(0, MAX_OF_ONE),
      hasMore: hasNext || different.length > MAX_OF_ONE,
    };
  });
  const records = ofEach.flatMap(({ resource: { name, title }, records }) =>
    records
      .filter(({ id }) => hasAddress(id))
      .map(({ id, label }): Result => {
        const rank = id === words ? 0 : rankOf(label, words);
        return { text: shortened(label), href: links.record(name, id), of: title, rank };
      }),
  );
  const results = [...lists.sort(byRank), ...records.sort(byRank)];
  return {
    results: results.slice(0, MAX_RESULTS),
    hasMore: results.length > MAX_RESULTS || ofEach.some(({ hasMore }) => hasMore),
    omitted: searched.filter((resource) => !found.has(resource)),
  };
}

/** The resources that were not searched, or only for what begins with the words, with links that search one of them. */
const omittedHint = (omitted: readonly AdminView[], words: string): Html | false =>
  omitted.length > 0 &&
  html`<p class="hint">
    ${phrase('notSearched', {
      lists: omitted.map(({ name, title }, index) => {
        const search = new LinkParameters([{ name: '_search', value: words }]);
        return html`${index > 0 && ', '}<a href="${links.list(name, search)}">${title}</a>`;
      }),
    })}
  </p>`;

/** What the page shows before a search: the caller's recent records. */
async function showRecent(context: AdminContext): Promise<Html> {
  const recent = await recentRecords(context);
  return recent.length === 0
    ? html`<p class="empty">${t('goToHint')}</p>`
    : html`<section>
        <h2>${t('recentRecords')}</h2>
        ${recordLinks(recent)}
      </section>`;
}

/** Answers with what `q` finds, as a page, or as JSON for the script. The only match with exactly this name is opened at once. */
export async function showGo(context: AdminContext): Promise<Reply> {
  const { request } = context;
  const given = LinkParameters.parse(request.query).get('q') ?? '';
  const words = given.trim().slice(0, LONGEST_WORDS).toWellFormed();
  const found = words === '' ? undefined : await find(context, words);
  const { results = [], hasMore = false, omitted = [] } = found ?? {};
  if (request.headers.accept?.includes('application/json') === true)
    return {
      status: 200,
      headers: { ...SAFE_HEADERS, 'Content-Type': 'application/json; charset=utf-8' },
      body: JSON.stringify({
        results: results.map(({ text, href, of }) => ({ text, href, of })),
        more: hasMore,
      }),
    };
  const [only, ...others] = results;
  if (only?.rank === 0 && others.length === 0 && !hasMore && omitted.length === 0) return redirect(only.href);
  const body = found
    ? html`${
        results.length === 0
          ? html`<p class="empty">${t('nothingMatches', { words })}</p>`
          : recordLinks(results)
      }
      ${hasMore && html`<p class="hint">${t('enterMoreWords')}</p>`} ${omittedHint(omitted, words)}`
    : await showRecent(context);
  return pageReply(context, { title: t('goTo'), crumbs: [t('goTo')], kind: 'go', body });
}
