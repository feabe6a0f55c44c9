/** The numbers of the fields of authentication/v1. Printed by scripts/protobuf-numbers.ts. */
export const authentication = `
BoundObjectReference kind apiVersion name -
SelfSubjectReview metadata status
SelfSubjectReviewStatus userInfo
TokenRequest metadata spec status
TokenRequestSpec audiences - boundObjectRef expirationSeconds
TokenRequestStatus token expirationTimestamp
TokenReview metadata spec status
TokenReviewSpec token audiences
TokenReviewStatus authenticated user error audiences
UserInfo username uid groups extra
`;
