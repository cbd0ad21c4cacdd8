// Helpers for tests of the OpenAPI document.
import { Ajv2020 } from 'ajv/dist/2020.js';

/* eslint-disable @typescript-eslint/no-explicit-any -- the documents have no static type */

/** Makes a validator for the schemas of a document. The validator gives the errors of a value. */
export function validator(document: any): (schema: object, value: unknown) => string[] {
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true });
  ajv.addSchema({ ...document, $id: 'api' }, 'api');
  return (schema, value) => {
    const text = JSON.stringify(schema).replaceAll('"$ref":"#/', '"$ref":"api#/');
    const validate = ajv.compile(JSON.parse(text) as object);
    return validate(value)
      ? []
      : (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
  };
}

/** Makes a function that gives the errors of a value by the name of its schema. */
export function schemaFaults(document: any): (name: string, value: unknown) => string[] {
  const faults = validator(document);
  return (name, value) => faults({ $ref: `#/components/schemas/${name}` }, value);
}

/** Resolves a reference. */
export const resolve = (document: any, part: any): any =>
  part.$ref === undefined
    ? part
    : (part.$ref as string)
        .slice(2)
        .split('/')
        .reduce((found, key) => found[key], document);
