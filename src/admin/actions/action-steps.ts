// The course of an action with fields: its form, a page that shows what it will do, and the action, which runs once.
import type { Column } from '../../db/schema/model.ts';
import type { FieldErrors } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { Caller } from '../../resources/access/access.ts';
import { valuesOf, type FormField, type Typed, type TypedValues } from '../fields/form-field.ts';
import { chosenOn, fieldRenderers, relatedOf, showLookup, withKeys } from '../fields/references.ts';
import { redirectChanged } from '../history/history-entry.ts';
import { runAction, showAction, type Action } from '../session/action.ts';
import type { Needs, Refusal } from '../session/password-confirmation.ts';
import type { AdminContext, ResourceContext } from '../web/admin-context.ts';
import { redirectFailed } from '../web/admin-request.ts';
import { emptyText, nothing, shortened, shownValue } from '../web/display-text.ts';
import type { Form } from '../web/form-data.ts';
import { hiddenInputs, html, type Content, type Html } from '../web/html.ts';
import { t } from '../web/language.ts';
import { labelsFor } from '../web/record-labels.ts';
import { inBatchOf, onceOnly, submitOnceField, type Once } from '../web/submit-once.ts';
import { confirmedFields, type Target } from './target.ts';

/** The steps of an action. Those with the typed values have the keys of the records that people named by words. */
export interface ActionSteps {
  /** What its forms are sent with. */
  readonly name: string;
  readonly crumb: string;
  /** Without any, the action has no form, but a page to confirm it. */
  readonly fields: readonly FormField[];
  readonly initial: (field: FormField) => Typed;
  /** The labels of other fields than those, by name. */
  readonly labels?: Readonly<Record<string, string>>;
  /** @param count of the records @param isLast whether the action follows */
  readonly title: (count: number, isLast: boolean) => string;
  /** The button of the last page. */
  readonly button: (what: string) => string;
  /** The content of the form. */
  readonly form: (fieldOf: (field: FormField) => Content, errors: FieldErrors) => Content;
  /** Whether a page confirms the form. */
  readonly asksAgain: boolean;
  /** What that page asks, and its records, if not those of the target. */
  readonly confirmation: (typed: TypedValues, what: string) => Promise<Confirmation>;
  /** The form as hidden fields. */
  readonly carried: (typed: TypedValues) => readonly (readonly [name: string, value: string])[];
  /** Why the values cannot be used. @param isConfirmed whether the action follows at once */
  readonly check: (typed: TypedValues, isConfirmed: boolean) => Promise<Refusal | undefined>;
  readonly needs: () => Needs;
  /** Runs the action in a transaction. @param expected the number of records that the page showed @returns the message that follows */
  readonly run: (once: Once, expected: number, caller: Caller) => Promise<string>;
  /** Why the action did not run. @throws the error itself for a fault of the service */
  readonly refusalFor: (error: unknown) => Refusal;
}

interface Confirmation {
  readonly question: Content;
  readonly records?: Content;
  /** How many of the records it changes, if that is known. */
  readonly count?: number | undefined;
}

/** Shows a value of a column, up to some length. */
export type ShowValue = (column: Column, text: string | null, max: number) => Html | string;

/** Shows values of columns: that of a foreign key as the label of its record. */
export async function valuesWithLabels(
  context: AdminContext,
  values: readonly (readonly [Column, string | null])[],
): Promise<ShowValue> {
  const keys = values.map(([column, text]) => [relatedOf(column, context), text] as const);
  const labels = await labelsFor(keys, context.browsing.labelsOf);
  return (column, text, max) => {
    if (text === null) return nothing();
    if (text === '') return emptyText();
    if (!column.references) return shownValue(column, text, max);
    return shortened(labels(relatedOf(column, context), text) ?? `#${text}`);
  };
}

/** Shows the page for what the form lacks, or runs the action. */
export async function answerSteps(
  context: ResourceContext,
  target: Target,
  steps: ActionSteps,
  form: Form,
): Promise<Reply> {
  const { fields, asksAgain } = steps;
  const isSent = form.get('_value') !== undefined;
  const crumbs = [...target.crumbs, steps.crumb];
  let typed = valuesOf(fields, (field) => (isSent ? field.read(form) : steps.initial(field)));

  async function run(): Promise<Reply> {
    const caller = await inBatchOf(context, context.caller, form);
    let text: string;
    try {
      const expected = Number(form.get('_expected'));
      text = await onceOnly(context, form, (once) => steps.run(once, expected, caller));
    } catch (error) {
      const refusal = steps.refusalFor(error);
      const hasErrors = Object.keys(refusal.errors).length > 0;
      const change = hasErrors || refusal.status !== 409 ? undefined : await target.changeSince(form);
      const notice = change === undefined ? refusal.notice : t('nothingWasChanged', { change });
      return showAction(context, first, { ...refusal, notice });
    }
    const { location, text: last = text, href } = await target.after(text);
    return redirectChanged(context, location, last, caller, href);
  }

  async function formContent(errors: FieldErrors): Promise<Content> {
    const [row] = await fieldRenderers(context, [{ typed }]);
    return steps.form((field) => row?.(field, errors, form.get('_preview')), errors);
  }

  const step = (isForm: boolean): Action => {
    const isLast = !isForm || !asksAgain;
    return {
      async page({ errors }) {
        const count = await target.count();
        if (count === 0) return redirectFailed(context, target.back.href, t('noRecordsToChange'));
        const confirmed = isForm ? undefined : await steps.confirmation(typed, t('records', { count }));
        const changing = confirmed?.count ?? count;
        const content = isForm
          ? await formContent(errors)
          : html`${await hiddenInputs(steps.carried(typed))} ${confirmed?.question}`;
        const records = confirmed?.records ?? (await target.shown(count));
        return {
          title: steps.title(changing, isLast),
          crumbs,
          address: target.address,
          back: target.back,
          isUnsaved: fields.length > 0,
          labels: { ...Object.fromEntries(fields.map(({ name, label }) => [name, label])), ...steps.labels },
          fields: html`${await target.hidden(steps.name)}
            <input type="hidden" name="_value" value="1" />
            ${isLast && html`${submitOnceField()}${confirmedFields(count)}`} ${content}`,
          button: isLast ? steps.button(t('records', { count: changing })) : t('continue'),
          around: (inner) => html`${inner} ${records}`,
        };
      },
      needs: () => (isLast ? steps.needs() : {}),
      run,
    };
  };
  const first = step(fields.length > 0);
  const last = step(!asksAgain);

  const named = (key: string): FormField | undefined => fields.find(({ name }) => name === form.get(key));
  const lookup = named('_lookup');
  if (lookup) return showLookup(context, lookup, form, crumbs);
  const [chosenField, chosen] = [named('_for'), form.get('_choose')];
  if (chosenField && chosen !== undefined) typed = new Map(typed).set(chosenField.column, chosenOn(chosen));
  const isWhole = isSent && chosen === undefined && form.get('_preview') === undefined;
  if (fields.length > 0 && !isWhole) return showAction(context, first);
  const [keyed] = await withKeys(context, [{ typed }]);
  typed = keyed?.typed ?? typed;
  const isConfirmed = form.get('_confirm') !== undefined;
  const refusal = await steps.check(typed, isConfirmed);
  if (refusal) return showAction(context, first, refusal);
  return isConfirmed ? runAction(context, last, form) : showAction(context, last);
}
