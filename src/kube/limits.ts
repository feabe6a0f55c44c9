/**
 * The limits of all foreign input: text and objects from clients, API servers, files and users. Every name ends with
 * its unit. Each comment names the senders and the attack that the limit prevents. The table in
 * docs/explanation/security-model.md describes what happens beyond each limit.
 */

const KIB = 1024;
const MIB = 1024 * KIB;

export const LIMITS = {
  // Requests to the review port. Without client certificates, every pod in the cluster can send them.

  /**
   * Open connections to the review port. Prevents clients from exhausting memory and file descriptors. Exceeds the
   * number of connections that three API servers need for concurrent writes. 1000 connections use about 100 MiB.
   */
  reviewConnections: 1000,
  /**
   * URL of one request, on every port. Routers and parsers of query strings process it on the main thread before they
   * reject it. API servers send a path and a timeout, which have at most 70 characters.
   */
  urlCharacters: 256,
  /** Request line and headers of one request. Prevents clients from sending headers without end. */
  headerBytes: 16 * KIB,
  /**
   * Body of one review. Prevents clients from exhausting memory with one body. Objects in etcd have at most 2 MiB. API
   * servers send both the old and the new version of an object, and escape `<`, `>` and `&` as six bytes.
   */
  reviewBytes: 24 * MIB,
  /** Unfinished small bodies. Prevents many slow clients from exhausting memory. */
  unfinishedSmallReviewsBytes: 24 * MIB,
  /** Complete small bodies that wait for the main thread. Prevents a flood of reviews from exhausting memory. */
  queuedReviewsBytes: 24 * MIB,
  /**
   * Received bytes of large bodies that have not been reviewed yet. Prevents many large bodies from exhausting memory.
   * The oldest unfinished body may exceed the limit unless the complete bodies alone already exceed it.
   */
  unreviewedLargeReviewsBytes: 16 * MIB,
  /**
   * Estimated memory of reviews that wait for an object or an access check. Prevents reviews of namespaces that do not
   * exist from accumulating in memory.
   */
  waitingReviewsBytes: 48 * MIB,
  /**
   * Concurrent reads of pods for `exec`. Prevents clients from exhausting memory, because API servers escape characters
   * of a pod, which then has up to 9 MiB, and from overloading the API server through a replica.
   */
  podReads: 8,
  /**
   * SubjectAccessReviews of one client address: approvals of exceptions, and uses of SCCs with `authorization: sar`.
   * Prevents clients from overloading the API server and from searching for permissions through a replica.
   */
  accessReviewsPerSecond: 200,
  /** SubjectAccessReviews of one client address at once, if it has sent none for 10 seconds. */
  accessReviewBurst: 2000,
  /**
   * SubjectAccessReview for the authorization webhook. The authorizer parses it on the main thread. Reviews of kubelet
   * requests are far smaller, but those of other users contain the selectors of their requests.
   */
  accessReviewBytes: 64 * KIB,
  /** Beginning of a review that is not read completely, in which the fields that identify the request are searched. */
  identityBytes: 64 * KIB,
  /** Each name in the envelope of a review. Messages and log lines contain names. Exceeds all names in the API. */
  nameCharacters: 1024,
  /** Each name, group and claim of a user. Caches and log lines contain them. Identity providers may send long ones. */
  claimCharacters: 16 * KIB,
  /** Values in the relevant fields of a large review, which the main thread parses. The largest pods have 100,000. */
  reviewValues: 250_000,
  /** Relevant fields of a large review, which the main thread parses. */
  relevantBytes: 8 * MIB,
  /** Nesting of fields that decisions read. Prevents recursion from overflowing the stack. Pods have about 20 levels. */
  nestingLevels: 100,
  /**
   * Nesting of other fields, as in API servers.
   * @see https://github.com/golang/go/blob/go1.25.0/src/encoding/json/scanner.go
   */
  ignoredNestingLevels: 10_000,

  // Responses and log lines, which repeat text of reviews. Without a limit, one review fills the log.

  /** Each message of a response, and all its audit annotations together. */
  messageCharacters: 256 * KIB,
  /** Reason of a denial in the log. */
  loggedCharacters: 16 * KIB,
  /** Reason why a review is malformed, which may contain any part of the review. */
  malformedCharacters: 1024,

  // Requests to the probe port. Every pod in the cluster can send them.

  /** Open connections to the probe port. Kubelets and Prometheus use one connection each. */
  probeConnections: 50,
  /**
   * Age of the metrics in a response. Without this limit, clients could keep the main thread busy, which renders all
   * metrics.
   */
  metricsAgeMilliseconds: 1000,

  // Objects. Every user who can create pods, workloads or exceptions in a namespace can write them. An object that fits
  // into etcd (1.5 MiB) could contain many more items than any node can run, and evaluating it would delay other reviews.

  /** Containers of a pod. */
  containers: 5000,
  /** Other items of a pod together, such as volumes, ports and capabilities. */
  podItems: 20_000,
  /**
   * Annotation keys and values of a pod, as in API servers.
   * @see https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations/
   */
  annotationBytes: 256 * KIB,
  /** Spec of a PodSecurityException. Replicas keep all exceptions in memory and match them with each pod. */
  exceptionSpecBytes: 16 * KIB,

  // Data that replicas keep between requests. Keys are digests or UIDs, and each entry uses less than 1 KiB.

  /**
   * Each text of an event's reference to an object, which may come from the owner references in a review. The longest
   * valid text is an API version with a group of 253 characters.
   */
  eventReferenceCharacters: 317,
  /** Rate limits of events by object. Forged reviews can name any number of objects. */
  eventBucketsBytes: 4 * MIB,
  /** Series of equal events. */
  eventSeriesBytes: 4 * MIB,
  /** Events that are being written or wait. Prevents events from accumulating in memory while the API server is slow. */
  pendingEvents: 200,
  /** Events that are written concurrently. Prevents events, such as those of expiring grants, from delaying requests. */
  eventWrites: 10,
  /** Rate limits of SubjectAccessReviews by client address. */
  accessReviewBucketsBytes: 4 * MIB,
  /** Results of SubjectAccessReviews. Reviews can name any number of users. */
  accessReviewResultsBytes: 10 * MIB,
  /** Details of violations in the evaluation of a namespace, which the leader keeps. Reports contain as much. */
  evaluationCharacters: 256 * KIB,
  /** Predicted levels of namespaces with many service accounts, for one second. */
  predictedLevelsBytes: 1 * MIB,
  /** Series of a counter. The policy version and the names in labels depend on objects and settings, which change. */
  counterSeries: 1000,
  /** A replica's own writes of one kind that its watch has not delivered yet. */
  ownWritesBytes: 16 * MIB,

  // Stored objects. Replicas list and watch objects that every user with the `edit` or `admin` ClusterRole can write.

  /**
   * Relevant fields of a stored pod or pod template. Prevents pods with thousands of volumes from filling the memory.
   * Typical pods have 2 KiB. Larger pods are stored as too large, so every policy denies them.
   */
  storedPodBytes: 32 * KIB,
  /** Relevant fields of any other object that users of a namespace can write. Larger objects are stored without them. */
  storedObjectBytes: 64 * KIB,
  /**
   * Kubelet version that a node reports, which responses, conditions and log lines repeat. A node can report up to 1.5
   * MiB, and API servers cache thousands of responses of the authorization webhook.
   */
  kubeletVersionCharacters: 256,
  /** Subjects of a stored binding, and names in a stored rule. The remaining ones have no access. */
  storedNames: 1000,

  // Responses of API servers, which contain the objects. The limits also protect replicas from defective servers.

  /** Pages of a list, which allow more objects than any cluster has. Prevents lists without end. */
  listPages: 10_000,
  /** Page of a list that has several objects. A larger page is requested again with fewer objects. */
  pageBytes: 4 * MIB,
  /**
   * One object, watch event or other response. API servers store at most 1.5 MiB, but JSON takes up to six times as
   * much.
   */
  responseBytes: 16 * MIB,
  /** Response that the main thread parses. Larger ones are parsed in a worker thread, so reviews are not delayed. */
  mainThreadBytes: 128 * KIB,
  /**
   * Values in a response or a large review. If the native JSON parser exceeded the heap, V8 would end the process.
   * Stored objects have at most 750,000, because each of them has at least two bytes in etcd. A review has two objects.
   */
  jsonValues: 1_500_000,

  // Command lines, files and URLs, which the user of a command names but others may have written.

  /** Value of an option or environment variable, or an operand. Linux has the same limit for each of them. */
  optionCharacters: 128 * KIB,
  /** Response to a question on the terminal. A pipe may never end. */
  confirmationCharacters: 1000,
  /** Certificates in a PEM text. Parsing one takes about 50 µs. */
  certificates: 500,

  /** One file, download or standard input. A file such as `/dev/zero` or a pipe may never end. */
  fileBytes: 256 * MIB,
  /** Nesting of YAML. Prevents recursion from overflowing the stack. */
  yamlNestingLevels: 500,
  /**
   * Values in a YAML document up to which aliases may expand to 99 % of all values, as in kubectl. The share falls to
   * 10 % for ten times as many values. Prevents exponential expansion.
   */
  aliasedNodes: 400_000,
  /** Manifests in the playground. Prevents a link from blocking the page. */
  playgroundCharacters: 256 * KIB,
  /** Fragment of a playground link, before it is decompressed. */
  fragmentCharacters: 512 * KIB,
} as const;

export type LimitName = keyof typeof LIMITS;
