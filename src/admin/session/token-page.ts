// The page that makes a token of the API for the own user.
import { Problem, addError, notFound, type FieldErrors } from '../../errors.ts';
import { messageOf } from '../../messages.ts';
import { checkText } from '../../db/types/json-values.ts';
import { ADMIN, accessOf } from '../../resources/access/access.ts';
import { allowedIn } from '../../resources/access/who-may.ts';
import { METHODS } from '../../resources/definition/resource.ts';
import { DEFAULT_DAYS, MAX_LABEL, MAX_TOKENS, expiryAfter, readScope } from '../../resources/users/tokens.ts';
import { saveOnce, submitOnceField } from '../web/submit-once.ts';
import type { AdminContext } from '../web/admin-context.ts';
import { links } from '../web/admin-links.ts';
import type { Form } from '../web/form-data.ts';
import { html, type Html } from '../web/html.ts';
import { t } from '../web/language.ts';
import { pageReply } from '../web/layout.ts';
import { checkbox, choiceField, inputField } from '../web/widgets.ts';
import { shownOnce } from './access-page.ts';
import type { Action } from './action.ts';

const labels = () => ({ label: t('label'), resources: t('resources'), methods: t('methods') });
const DAYS: readonly number[] = [30, DEFAULT_DAYS, 365];

const NONE_SELECTED = { resources: 'noResourcesSelected', methods: 'noMethodsSelected' } as const;

const checkboxes = (name: 'resources' | 'methods', values: readonly string[], sent: Form | undefined): Html =>
  html`<div class="field" id="field-${name}" role="group" aria-labelledby="${name}-label" aria-describedby="${name}-hint">
    <span class="label" id="${name}-label">${labels()[name]}</span>
    <div class="control">
      ${values.map((value) => checkbox({ name, value, checked: sent?.all(name).includes(value) }, value))}
    </div>
    <p class="hint" id="${name}-hint">${t(NONE_SELECTED[name])}</p>
  </div>`; // prettier-ignore

function tokenFields({ views, caller }: AdminContext, errors: FieldErrors, sent: Form | undefined): Html {
  // The caller may do something with these in the API.
  const named = [...views(accessOf(caller))].flatMap(([name, view]) => (allowedIn(view) ? [name] : []));
  const days = sent?.get('expires') ?? String(DEFAULT_DAYS);
  const choices = DAYS.map((count) => [String(count), t('afterDays', { count })] as const);
  const label = { value: sent?.get('label'), maxlength: MAX_LABEL };
  return html`${submitOnceField(sent)} ${inputField('label', t('label'), label, { hint: t('tokenHint'), errors: errors['label'] })}
    ${checkboxes('resources', named, sent)} ${checkboxes('methods', METHODS, sent)}
    ${choiceField('expires', t('expires'), [...choices, ['never', t('never')]], days)}`; // prettier-ignore
}

/** Makes a token for the caller. @throws Problem 404 if the database has no table for tokens */
export function ownTokens(context: AdminContext): Action {
  const { tokens, caller, views, report } = context;
  if (!tokens) throw notFound(t('noPage'));
  const back = { text: t('yourAccount'), href: links.page('account') };
  const crumbs = [back, t('addToken')];
  const read = (form: Form) => {
    const errors: FieldErrors = {};
    const named = (name: string): readonly string[] | undefined =>
      form.all(name).length > 0 ? form.all(name) : undefined;
    const scope = readScope(named('resources'), named('methods'), (name) => views(ADMIN).has(name), errors);
    const label = checkText(form.get('label') ?? '', { maxLength: MAX_LABEL });
    if (label.fault !== undefined) addError(errors, 'label', label.fault);
    const given = form.get('expires');
    const days = DAYS.find((count) => String(count) === given);
    if (days === undefined && given !== 'never') addError(errors, 'expires', t('notOneOfChoices'));
    const expires = given === 'never' ? null : expiryAfter(days);
    return { errors, facts: { label: label.value ?? '', scope, expires } };
  };
  return {
    page: ({ errors }, sent) => ({
      title: t('addToken'),
      crumbs,
      address: links.page('tokens'),
      fields: tokenFields(context, errors, sent),
      button: t('addTokenNow'),
      back,
      labels: labels(),
      around: (form) =>
        html`<p>${t('aboutTokens')}</p>
          ${form}`, // prettier-ignore
    }),

    check(form) {
      const { errors } = read(form);
      return Object.keys(errors).length > 0 ? { errors, status: 400 } : undefined;
    },

    needs: () => ({ password: t('requiredForToken') }),

    async run(form) {
      let token: string | undefined;
      const { id } = await saveOnce(context, form, async (_, transaction) => {
        const made = await tokens.add(caller.id, read(form).facts, transaction.run);
        if (!made) throw new Problem(409, messageOf('tooManyTokens', { max: MAX_TOKENS }));
        token = made.token;
        return made;
      });
      if (token !== undefined) void report('token.made', { token: id });
      const body = html`${
          token === undefined
            ? html`<p class="lead">${t('tokenSentTwice')}</p>`
            : html`<p class="lead">${t('copyToken')}</p>
                ${shownOnce(t('token'), token)}`
        }
        <p><a class="button" href="${links.page('account')}">${t('backToAccount')}</a></p>`;
      return pageReply(context, { title: t('yourNewToken'), crumbs, kind: 'form', body });
    },
  };
}
