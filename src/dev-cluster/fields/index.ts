/**
 * The fields of objects: their types, decoding, patches, ownership, OpenAPI documents. Pure but for the ApiErrors thrown;
 * knows nothing of storage, requests or admission.
 */
export type * from './types.ts';
export { loadSchemas, type Schemas } from './schema.ts';
export { typeOfCrdSchema } from './crd-schema.ts';
export { decodeBody, type Body, type Decoded } from './decode.ts';
export { decodeValue, type Decoding } from './decode-value.ts';
export { applyPatch, type PatchMediaType, type PatchRequest } from './patch.ts';
export { keepTimes, managerOf, trackUpdate, type Ownership, type UpdateRequest } from './managed-fields.ts';
export { applyConfiguration, type ApplyRequest } from './apply.ts';
export { decodeConfiguration } from './decode-configuration.ts';
export type { OwnedResource } from './reset-fields.ts';
export { openApiV2, openApiV3, openApiV3Index } from './openapi.ts';
