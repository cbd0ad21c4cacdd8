// How the admin area shows the values of a column, as the registry names it.

/** The tones of choices: `open` as a warning. */
export const TONES = ['neutral', 'info', 'success', 'warning', 'danger', 'accent'] as const;
export type Tone = (typeof TONES)[number];

/** What a text is: its form field and how its value is shown. */
export const WIDGETS = ['email', 'url', 'phone', 'color', 'image', 'markdown', 'code'] as const;
export type Widget = (typeof WIDGETS)[number];
