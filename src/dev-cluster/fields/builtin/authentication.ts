/** The types of authentication/v1. In the notation of notation.ts, as of Kubernetes 1.36. */
export const authentication = `
BoundObjectReference
  kind string
  apiVersion string
  name string
  uid ~types.UID
SelfSubjectReview
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  status! SelfSubjectReviewStatus
SelfSubjectReviewStatus
  userInfo! UserInfo
TokenRequest
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! TokenRequestSpec
  status! TokenRequestStatus
TokenRequestSpec
  audiences! []string
  expirationSeconds! *int64
  boundObjectRef! *BoundObjectReference
TokenRequestStatus
  token! string
  expirationTimestamp! time
TokenReview
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  spec! TokenReviewSpec
  status! TokenReviewStatus
TokenReviewSpec
  token string
  audiences []string
TokenReviewStatus
  authenticated boolean
  user! UserInfo
  audiences []string
  error string
UserInfo
  username string
  uid string
  groups []string
  extra map []string
`;
