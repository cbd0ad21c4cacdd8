import fc from 'fast-check';

const SURROGATES = { first: 0xd800, count: 0x800 };

/** Any character of Unicode. The unit `binary` of fast-check builds a table of all of them in each process. */
export const anyCharacter = fc
  .integer({ min: 0, max: 0x10ffff - SURROGATES.count })
  .map((code) => String.fromCodePoint(code < SURROGATES.first ? code : code + SURROGATES.count));
