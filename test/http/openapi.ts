// What tests of the OpenAPI document need.
import { Ajv2020 } from 'ajv/dist/2020.js';

/* eslint-disable @typescript-eslint/no-explicit-any -- documents are looked into as they come */

/** A validator of values of a document's schemas. */
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

/** What a reference stands for. */
export const resolve = (document: any, part: any): any =>
  part.$ref === undefined
    ? part
    : (part.$ref as string)
        .slice(2)
        .split('/')
        .reduce((found, key) => found[key], document);
