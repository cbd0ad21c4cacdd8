// What people do on a page of its own: its form, the confirmation, what it does, and why the page is shown again.
import type { FieldErrors } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { AdminContext } from '../web/admin-context.ts';
import type { Link } from '../web/admin-links.ts';
import type { Form } from '../web/form-data.ts';
import { attributes, html, type Content, type Html } from '../web/html.ts';
import { t } from '../web/language.ts';
import { pageReply, type Crumb } from '../web/layout.ts';
import { errorSummary } from '../web/widgets.ts';
import { confirmationField, confirmCaller, type Needs, type Refusal } from './password-confirmation.ts';

/** The form of an action. */
export interface ActionForm {
  /** Where the form is sent to. */
  readonly address: string;
  /** The form above the confirmation, with its hidden fields. */
  readonly fields?: Content;
  readonly button: Content;
  /** Whether it takes something away, as its button shows. */
  readonly isDanger?: boolean;
  readonly kind?: 'form' | 'delete';
  /** The way back without the action; a page with other sections has none. A form calls it "Cancel". */
  readonly back?: Link | undefined;
  /** Whether the script warns before what was typed is lost. */
  readonly isUnsaved?: boolean;
  /** Whether the form sends a file. */
  readonly hasFile?: boolean;
}

/** The page of an action. */
export interface ActionPage extends ActionForm {
  readonly title: string;
  readonly crumbs: readonly Crumb[];
  /** Why the action is impossible: the page has no form then. */
  readonly impossible?: string | undefined;
  /** The labels of the fields, by name, for the links of the error summary. */
  readonly labels?: Readonly<Record<string, string>>;
  /** The content of the page around the form. */
  readonly around?: (form: Html) => Content;
}

/** Something that people do with a form. An action that is not allowed has no page: making it throws a problem. */
export interface Action {
  /** @param sent the form, where the page is shown again. @returns a redirect if there is nothing to do */
  readonly page: (refusal: Refusal, sent?: Form) => Promise<ActionPage | Reply> | ActionPage | Reply;
  /** What must confirm it; nothing by default. */
  readonly needs?: () => Promise<Needs> | Needs;
  /** Looks at the form before its confirmation is asked for. */
  readonly check?: (form: Form) => Promise<Refusal | Reply | undefined> | Refusal | Reply | undefined;
  /** Does it. @returns where to go, or why the page is shown again */
  readonly run: (form: Form) => Promise<Reply | Refusal> | Reply | Refusal;
}

/** The page of an action before its form is sent. */
const FRESH: Refusal = { errors: {}, status: 200 };

/** The form of an action, with what must confirm it. */
export function actionForm(
  context: AdminContext,
  form: ActionForm,
  errors: FieldErrors = {},
  needs: Needs = {},
): Html {
  const { address, fields, button, isDanger = false, kind = 'form', back, isUnsaved, hasFile } = form;
  const state = {
    enctype: hasFile && 'multipart/form-data',
    class: kind === 'delete' ? 'confirm' : 'record',
    'data-unsaved': isUnsaved,
  };
  return html`<form method="post" action="${address}" ${attributes(state)}>
    <input type="hidden" name="_csrf" value="${context.csrf}" />
    ${fields} ${confirmationField(context, errors, needs)}
    <div class="buttons">
      <button class="${isDanger ? 'danger' : 'primary'}">${button}</button>
      ${back && html`<a class="button" href="${back.href}" ${attributes({ 'data-discard': isUnsaved })}>${t('cancel')}</a>`}
    </div>
  </form>`;
}

/** A page with a form. @param needs what must confirm the form */
export function formReply(
  context: AdminContext,
  page: ActionPage,
  { errors, notice, status, headers } = FRESH,
  needs: Needs = {},
): Reply {
  const { title, crumbs, kind = 'form', back, impossible, labels } = page;
  const isPossible = impossible === undefined;
  const form = isPossible
    ? actionForm(context, page, errors, needs)
    : html`<p class="lead">${impossible}</p>
        ${back && html`<p><a class="button" href="${back.href}">${back.text}</a></p>`}`;
  const body = html`${notice !== undefined && html`<p class="error-summary" role="alert">${notice}</p>`}
  ${isPossible && errorSummary(errors, labels)} ${page.around?.(form) ?? form}`;
  return pageReply(context, { title, crumbs, kind, status, body }, headers);
}

/** Shows the page of an action, again with the errors of its form. */
export async function showAction(
  context: AdminContext,
  action: Action,
  refusal = FRESH,
  sent?: Form,
): Promise<Reply> {
  const page = await action.page(refusal, sent);
  return 'body' in page ? page : formReply(context, page, refusal, await action.needs?.());
}

/** Runs an action with its form, once that is confirmed. */
export async function runAction(context: AdminContext, action: Action, form: Form): Promise<Reply> {
  const answer =
    (await action.check?.(form)) ??
    (await confirmCaller(context, form, (await action.needs?.()) ?? {})) ??
    (await action.run(form));
  return 'body' in answer ? answer : showAction(context, action, answer, form);
}
