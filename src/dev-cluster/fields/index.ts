/**
 * Fields of objects: schemas, decoding, patches and ownership. The functions are pure apart from the ApiErrors that they
 * throw.
 */
export { loadSchemas, typeOfCrdSchema, type Schema as ObjectType, type Schemas } from './schema.ts';
export { decodeBody, decodeConfiguration, decodeValue, type FieldValidation } from './decode.ts';
export { applyPatch, type PatchMediaType } from './patch.ts';
export {
  keepTimes,
  managerOf,
  trackUpdate,
  type OwnedResource,
  type Ownership,
  type UpdateRequest,
} from './managed-fields.ts';
export { applyConfiguration } from './apply.ts';
export { openApiV2, openApiV3, openApiV3Index } from './openapi.ts';
