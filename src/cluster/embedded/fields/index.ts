/**
 * The fields of objects: their types, decoding, patches, ownership, OpenAPI documents. Pure but for the ApiErrors thrown;
 * knows nothing of storage, requests or admission.
 */
export type * from './types.ts';
export { loadSchemas, type Schemas } from './schema.ts';
export { typeOfCrdSchema } from './crd-schema.ts';
export { decodeBody, decodeValue, type Decoded, type Decoding } from './decode.ts';
export { applyPatch, type PatchMediaType, type PatchRequest } from './patch.ts';
export { managerOf, trackUpdate, type UpdateRequest } from './managed-fields.ts';
export { applyConfiguration, decodeConfiguration, type ApplyRequest } from './apply.ts';
export { resetFieldsOf, type ResetFields } from './reset-fields.ts';
export { openApiV2, openApiV3, openApiV3Index } from './openapi.ts';
