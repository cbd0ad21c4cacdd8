/* global TEXTS, FORMS, document, window, fetch, Element, Event, FormData, AbortController, ResizeObserver, setTimeout, clearTimeout, localStorage */
// Progressive enhancement of the admin area. Every page works without it.
(() => {
  'use strict';

  /** The key in local storage that turns keyboard shortcuts off. */
  const KEYS_OFF = 'admin.keys.off';
  /** Milliseconds without typing before a search starts. */
  const SEARCH_DELAY = 200;

  const plurals = new Intl.PluralRules(document.documentElement.lang);
  /** The text of a code in the language of the page; see `assets.ts`. */
  const t = (code, params = {}) =>
    TEXTS[code]
      .replace(FORMS, (_, name, one, other) => (plurals.select(params[name]) === 'one' ? one : other))
      .replace(/\{(\w+)\}/g, (_, name) => params[name]);

  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  /** Creates an element with attributes and text. */
  function make(name, attributes = {}, text = '') {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.textContent = text;
    return element;
  }

  // Keyboard shortcuts ----------------------------------------------------------------------------

  /** The browser may deny access to storage. Turning the shortcuts off then lasts for one page only. */
  function tryStorage(work) {
    try {
      return work();
    } catch {
      return null;
    }
  }

  let isOff = tryStorage(() => localStorage.getItem(KEYS_OFF)) !== null;

  const choice = document.getElementById('keys-choice');
  if (choice) {
    const box = document.getElementById('keys-on');
    box.checked = !isOff;
    box.addEventListener('change', () => {
      isOff = !box.checked;
      tryStorage(() => (isOff ? localStorage.setItem(KEYS_OFF, '1') : localStorage.removeItem(KEYS_OFF)));
    });
    choice.hidden = false;
  }

  const isTyping = (element) =>
    element.isContentEditable ||
    element.closest(
      'select, textarea, input:not([type=checkbox], [type=radio], [type=button], [type=submit])',
    );

  const linkOf = (row) => row.querySelector('th[scope=row] a, td a');

  /** Moves the focus to the next or previous record of a list. On the page of a record, opens it. */
  function move(step) {
    const rows = all('.records tbody tr').filter(linkOf);
    const neighbor = document.querySelector(`.heading a[rel=${step > 0 ? 'next' : 'prev'}]`);
    if (neighbor) return act(neighbor, 'click');
    const at = rows.indexOf(document.activeElement.closest('tr'));
    const to = at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step;
    return act(rows[to] && linkOf(rows[to]), 'focus');
  }

  const currentRow = () => document.activeElement.closest('.records tbody tr');

  /** Calls a method of the element. @returns whether there is an element */
  function act(element, method) {
    element?.[method]();
    return Boolean(element);
  }

  const goTo = (input) => act(input, 'select') && act(input, 'focus');

  const KEYS = {
    '/': () => goTo(document.querySelector('input[type=search]')),
    '?': () => act(document.querySelector('.who a'), 'click'),
    j: () => move(1),
    k: () => move(-1),
    e: () => act(currentRow() && linkOf(currentRow()), 'click'),
    x: () => act(currentRow()?.querySelector('.check input'), 'click'),
    n: () => act(document.querySelector('.actions a[href*="/-/add/"]'), 'click'),
    // On a row's checkbox, Enter would submit the form of the whole list.
    Enter: () => document.activeElement.matches('.check input') && KEYS.e(),
  };

  const goField = document.getElementById('go');
  const saveButton = (value) => document.querySelector(`button[name=_save][value=${value}]`);

  /** What Ctrl does with a key, also while typing. */
  const CONTROL_KEYS = {
    s: () => act(saveButton('stay'), 'click'),
    k: () => goTo(goField),
    Enter: () => act(saveButton('next') ?? saveButton('list'), 'click'),
  };

  document.addEventListener('keydown', (event) => {
    const hasControl = event.ctrlKey || event.metaKey;
    if (isOff || event.defaultPrevented || event.isComposing || event.altKey) return;
    if (hasControl ? event.shiftKey || event.repeat : isTyping(event.target)) return;
    const keys = hasControl ? CONTROL_KEYS : KEYS;
    if (Object.hasOwn(keys, event.key) && keys[event.key]()) event.preventDefault();
  });

  // The menu in the header closes on Escape and on a click elsewhere.
  const close = (event) => {
    for (const menu of all('.top details[open]')) {
      if (event.type === 'click' && menu.contains(event.target)) continue;
      if (event.type === 'keydown' && event.key !== 'Escape') continue;
      if (menu.contains(document.activeElement)) menu.querySelector('summary').focus();
      menu.open = false;
    }
  };
  for (const type of ['click', 'keydown']) document.addEventListener(type, close);

  // Go to: results while typing, as links below the field -------------------------------------------

  if (goField) {
    const form = goField.closest('form');
    const list = make('ul', { class: 'choices', hidden: '' });
    const status = make('span', { role: 'status', class: 'hidden' });
    form.append(list, status);
    let timer;
    let request;

    const search = async () => {
      request?.abort();
      request = new AbortController();
      const words = goField.value.trim();
      if (words === '') return (list.hidden = true);
      try {
        const address = `${form.getAttribute('action')}?q=${encodeURIComponent(words)}`;
        const headers = { Accept: 'application/json' };
        const response = await fetch(address, { headers, signal: request.signal });
        // Enter shows the login, or the error.
        if (response.redirected || !response.ok) return (list.hidden = true);
        const { results } = await response.json();
        const items = results.map(({ text, href, of }) => {
          const item = make('li');
          item.append(make('a', { href }, text), make('span', { class: 'key' }, of));
          return item;
        });
        list.replaceChildren(...items);
        list.hidden = items.length === 0 || document.activeElement !== goField;
        status.textContent =
          items.length === 0 ? t('nothingFound') : t('matchesFound', { found: items.length });
      } catch {
        // It was aborted, or there is no connection.
      }
    };
    goField.addEventListener('input', () => {
      clearTimeout(timer);
      timer = setTimeout(() => void search(), SEARCH_DELAY);
    });
    form.addEventListener('keydown', (event) => {
      const stops = [goField, ...all('a', list)];
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (list.hidden || event.isComposing || !(step || event.key === 'Escape')) return;
      if (!step) list.hidden = true;
      stops[step ? stops.indexOf(document.activeElement) + step : 0]?.focus();
      event.preventDefault();
    });
    form.addEventListener('focusout', ({ relatedTarget }) => {
      if (!form.contains(relatedTarget)) list.hidden = true;
    });
  }

  // Selecting rows --------------------------------------------------------------------------------

  for (const table of all('table.records')) {
    const boxes = all('tbody .check input[type=checkbox]', table);
    const head = table.querySelector('thead .check');
    if (!head || boxes.length === 0) continue;
    const selectAll = make('input', { type: 'checkbox', 'aria-label': t('selectAll') });
    head.dataset.label = t('selectAll');
    head.replaceChildren(selectAll);
    const label = document.querySelector('label[for=bulk-action]');
    const initialLabel = label?.textContent;
    const allMatching = document.querySelector('#bulk input[name=_all]');
    let last;

    const show = () => {
      const count = boxes.filter((box) => box.checked).length;
      selectAll.checked = count === boxes.length;
      selectAll.indeterminate = count > 0 && count < boxes.length;
      if (!label) return;
      label.textContent = allMatching?.checked
        ? t('withAll')
        : count > 0
          ? t('withCountSelected', { count })
          : initialLabel;
    };
    allMatching?.addEventListener('change', show);
    selectAll.addEventListener('change', () => {
      for (const box of boxes) box.checked = selectAll.checked;
      show();
    });
    for (const box of boxes) {
      // Shift-click sets all boxes between this one and the last one.
      box.addEventListener('click', (event) => {
        const [from, to] = [boxes.indexOf(last), boxes.indexOf(box)];
        if (event.shiftKey && from >= 0)
          for (const one of boxes.slice(Math.min(from, to), Math.max(from, to) + 1))
            one.checked = box.checked;
        last = box;
        show();
      });
    }
    // A page from the back/forward cache may have other checkboxes than when it loaded.
    window.addEventListener('pageshow', show);
  }

  // A table that fits its container gets a sticky header; one that scrolls sideways cannot have it.
  if (typeof ResizeObserver === 'function') {
    const observer = new ResizeObserver((entries) => {
      for (const { target } of entries) {
        const table = target.firstElementChild;
        if (table) target.classList.toggle('fits', table.scrollWidth <= target.clientWidth);
      }
    });
    for (const element of all('.scroll')) observer.observe(element);
  }

  // Unsaved changes -------------------------------------------------------------------------------

  /** Without the password that confirms a change: the browser may fill it in, and typing it again is no loss. */
  const valuesOf = (form) =>
    JSON.stringify(
      [...new FormData(form)]
        .filter(([name]) => name !== '_current')
        .map(([name, value]) => [name, typeof value === 'string' ? value : value.name]),
    );

  // A column may be named like a property of the form, such as `dataset`, and its field then replaces the property. So this script
  // uses no properties of forms.
  const unsaved = all('form[data-unsaved]');
  const forms = all('form.record, form[data-unsaved]').map((form) => ({
    form,
    // A form that came back, with errors for instance, is unsaved from the start.
    before:
      unsaved.includes(form) &&
      document.querySelector('.error-summary, .notice, .preview, form[data-changed]')
        ? ''
        : valuesOf(form),
  }));
  /** Whether the next navigation sends a form or discards its values. */
  let isIntended = false;
  document.addEventListener('submit', ({ target }) => {
    if (forms.some(({ form }) => form === target)) isIntended = true;
  });
  document.addEventListener('input', ({ target }) => {
    const form = target.closest('form.record');
    if (form) Element.prototype.setAttribute.call(form, 'data-changed', '');
    // What is typed for a change of several records is meant to be set.
    const box = target.closest('.settable')?.querySelector('[name=_column]');
    if (box && box !== target) box.checked = true;
  });
  for (const link of all('form a[data-discard]'))
    link.addEventListener('click', ({ ctrlKey, metaKey, shiftKey }) => {
      isIntended = !(ctrlKey || metaKey || shiftKey); // With one of them, the link opens elsewhere.
    });
  window.addEventListener('beforeunload', (event) => {
    const isAsking = !isIntended;
    // If the user stops this navigation, the page stays, and the next one asks.
    isIntended = false;
    if (isAsking && forms.some(({ form, before }) => before !== valuesOf(form))) event.preventDefault();
  });

  // Colors: the color picker of the browser in place of the swatch -----------------------------------

  for (const input of all('input[data-color]')) {
    const label = input.labels[0]?.firstChild.textContent.trim();
    const picker = make('input', { type: 'color', 'aria-label': t('chooseOne', { label }) });
    const show = () => (picker.value = /^#[\da-f]{6}$/i.test(input.value) ? input.value : '#000000');
    input.addEventListener('input', show);
    picker.addEventListener('input', () => {
      input.value = picker.value;
      input.dispatchEvent(new Event('input', { bubbles: true }));
    });
    window.addEventListener('pageshow', show);
    show();
    if (input.nextElementSibling?.matches('.swatch')) input.nextElementSibling.remove();
    input.after(picker);
  }

  // Paper: the values in place of their controls, which cut long ones -------------------------------

  window.addEventListener('beforeprint', () => {
    for (const control of all('form.record :is(input, select, textarea)')) {
      if (!/^(text|select|number|date|time|email|url|tel)/.test(control.type) || !control.offsetParent)
        continue;
      const next = control.nextElementSibling;
      const printed = next?.matches('.printed') ? next : make('span', { class: 'printed' });
      const value = control.type === 'datetime-local' ? control.value.replace('T', ' ') : control.value;
      printed.textContent = control.selectedOptions?.[0]?.text ?? value;
      control.after(printed);
    }
  });

  // Foreign keys: a combobox, following the ARIA Authoring Practices ------------------------------

  /** A label as a text input can hold it: browsers remove line breaks from its value. */
  const oneLine = (label) => label.replace(/\s+/g, ' ').trim();

  /** Lets a link lead to a record. @param lookup the address of the search for records like it */
  function lead(link, lookup, { id, label }) {
    // A plain `-` marks paths that are not records.
    const segment = id === '-' ? '%2D' : encodeURIComponent(id);
    link.href = lookup.replace('-/lookup/', `${segment}/`);
    link.setAttribute('aria-label', t('openOne', { label }));
  }

  for (const link of all('select + a[data-open]')) {
    const select = link.previousElementSibling;
    const show = () => {
      link.hidden = ['', '.', '..'].includes(select.value);
      lead(link, link.dataset.open, { id: select.value, label: select.selectedOptions[0]?.text });
    };
    select.addEventListener('change', show);
    // A browser that returns to the page restores the selected option.
    window.addEventListener('pageshow', show);
  }

  function enhance(field, index) {
    const key = field.querySelector('input[name]');
    // Says that the field has a key, and not words, which may be the name of another record.
    const mark = field.querySelector('input[type=hidden]');
    const shown = field.querySelector('output, .reference-label');
    if (!key || key.disabled || key.readOnly) return;
    const id = key.id || `reference-${index}`;
    const listId = `${id}-list`;
    const input = make('input', {
      type: 'text',
      role: 'combobox',
      autocomplete: 'off',
      spellcheck: 'false',
      'aria-autocomplete': 'list',
      'aria-expanded': 'false',
      'aria-controls': listId,
      placeholder: t('typeToSearch'),
    });
    for (const { name, value } of [...key.attributes])
      if (name === 'required' || name.startsWith('aria-')) input.setAttribute(name, value);
    // Without `tabindex`, Tab leads from the field into a list that scrolls, which then closes.
    const list = make('ul', {
      role: 'listbox',
      id: listId,
      'aria-label': t('recordsFound'),
      tabindex: '-1',
      hidden: '',
    });
    const status = make('span', { role: 'status', class: 'hidden' });
    const link = shown?.querySelector('a') ?? make('a');
    const label = oneLine(shown?.textContent ?? '');
    // Search words that came back with an error are not an earlier choice. A stored key is one, even if its record is gone.
    const isGone = label === '' && 'stored' in key.dataset;
    let chosen =
      label === '' && !isGone ? { id: '', label } : { id: key.value, label: label || key.value, isGone };
    let records = [];
    // The key of the record that the search words mean to the server, if they mean one.
    let match;
    // The search words that found `records`.
    let searchedFor;
    let active = -1;
    let timer;
    let request;
    let isEntered = false;

    key.removeAttribute('id');
    key.removeAttribute('required');
    key.type = 'hidden';
    input.id = id;
    input.value = label || key.value;
    if (shown) shown.hidden = true;
    // Removed rather than hidden: Enter would still press a hidden button.
    for (const button of all('button', field)) button.remove();
    const box = make('div', { class: 'combobox' });
    box.append(input, list);
    field.append(box, link, status);
    link.textContent = t('open');
    showLink();

    /** Updates the link to the chosen record. */
    function showLink() {
      link.hidden = chosen.id === '' || chosen.isGone || key.value !== chosen.id;
      lead(link, field.dataset.lookup, chosen);
    }

    /** Shows the result of a search, or only announces it to screen readers. */
    function announce(text, isForScreenReaders = false) {
      status.textContent = text;
      status.className = isForScreenReaders ? 'hidden' : 'hint';
    }

    /** The search words; empty while the text is the label of the chosen record. */
    const words = () => (input.value === chosen.label ? '' : input.value.trim());

    function open(isOpen) {
      list.hidden = !isOpen;
      input.setAttribute('aria-expanded', String(isOpen));
      if (!isOpen) activate(-1);
    }

    /** Highlights an option of the list; -1 for none. */
    function activate(at) {
      active = at;
      [...list.children].forEach((option, one) => option.setAttribute('aria-selected', String(one === at)));
      if (at < 0) return input.removeAttribute('aria-activedescendant');
      input.setAttribute('aria-activedescendant', list.children[at].id);
      list.children[at].scrollIntoView({ block: 'nearest' });
    }

    function choose(record) {
      isEntered = true;
      chosen = record;
      key.value = record.id;
      mark.value = `=${record.id}`;
      input.value = record.label;
      showLink();
      open(false);
    }

    async function search() {
      request?.abort();
      request = new AbortController();
      const wanted = words();
      let hasMore;
      try {
        const address = `${field.dataset.lookup}?_search=${encodeURIComponent(wanted)}`;
        const response = await fetch(address, { signal: request.signal });
        if (response.redirected) {
          announce(t('sessionExpired'));
          return open(false);
        }
        if (!response.ok) throw new Error(String(response.status));
        ({ records, more: hasMore, match } = await response.json());
        records = records.map((record) => ({ ...record, label: oneLine(record.label) }));
        searchedFor = wanted;
      } catch (error) {
        if (error.name === 'AbortError') return;
        announce(t('searchFailed'));
        return open(false);
      }
      const option = (record, at) => {
        const marks = { role: 'option', id: `${listId}-${at}`, 'aria-selected': 'false' };
        const item = make('li', marks, record.label);
        item.append(make('span', { class: 'key' }, record.id));
        item.addEventListener('click', () => choose(record));
        return item;
      };
      const more = { role: 'option', class: 'hint', 'aria-disabled': 'true', 'aria-selected': 'false' };
      const rest = hasMore ? [make('li', more, t('moreMatch'))] : [];
      list.replaceChildren(...records.map(option), ...rest);
      activate(-1);
      // The visible list already shows the result; only screen readers need the text.
      if (records.length === 0) announce(t('noMatches'));
      else if (hasMore) announce(t('firstMatches', { shown: records.length }), true);
      else announce(t('matchesFound', { found: records.length }), true);
      if (document.activeElement !== input) chooseMeant();
      open(records.length > 0 && document.activeElement === input);
    }

    /** Chooses the record that the form would save for the words. */
    function chooseMeant() {
      if (input.value === chosen.label || searchedFor !== input.value.trim()) return;
      const record = records.find(({ id }) => id === match);
      if (!record) return;
      choose(record);
      announce(t('wasChosen', { label: record.label }), true);
    }

    // Until a record is chosen, the form sends the text itself: it may be a key, and the server reports ambiguous words.
    input.addEventListener('input', () => {
      const isChosen = input.value === chosen.label;
      key.value = isChosen ? chosen.id : input.value.trim();
      mark.value = isChosen ? `=${chosen.id}` : '';
      showLink();
      clearTimeout(timer);
      timer = setTimeout(() => void search(), SEARCH_DELAY);
    });

    input.addEventListener('keydown', (event) => {
      if (event.isComposing || event.ctrlKey || event.metaKey) return;
      const isOpen = !list.hidden;
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step && !isOpen) void search();
      else if (step) {
        const at = active + step;
        activate(at < -1 ? records.length - 1 : at >= records.length ? -1 : at);
      } else if (event.key === 'Enter' && isOpen && active >= 0) choose(records[active]);
      // Enter searches instead of submitting words in place of a record.
      else if (event.key === 'Enter' && input.value !== chosen.label) void search();
      // Escape restores the chosen record, so that half a word is not sent.
      else if (event.key === 'Escape' && (isOpen || input.value !== chosen.label)) choose(chosen);
      else return;
      event.preventDefault();
    });

    // Safari clears inputs without autocompletion on a page from its back/forward cache, after this event.
    const showSent = () => (input.value = key.value === chosen.id ? chosen.label : key.value);
    window.addEventListener('pageshow', ({ persisted }) => persisted && setTimeout(showSent));
    // The first click into the field, or after a choice, selects the chosen record, so that typing replaces it.
    input.addEventListener('focus', () => (isEntered = true));
    input.addEventListener('click', () => {
      const hasCaret = input.selectionStart === input.selectionEnd;
      if (isEntered && hasCaret && input.value === chosen.label) input.select();
      isEntered = false;
      if (list.hidden) void search();
    });
    // If the list took the focus, it would close before the click arrives.
    list.addEventListener('mousedown', (event) => event.preventDefault());
    input.addEventListener('blur', () => {
      clearTimeout(timer);
      open(false);
      announce('');
      const typed = input.value.trim();
      if (typed === '') choose({ id: '', label: '' });
      else if (input.value === chosen.label) choose(chosen);
      else if (searchedFor === typed) chooseMeant();
      else void search();
    });

    if (!key.autofocus) return;
    input.focus();
    input.select();
  }

  all('.reference[data-lookup]').forEach(enhance);
})();
