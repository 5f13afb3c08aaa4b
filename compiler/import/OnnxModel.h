// An ONNX model as plain structs: what the importer reads, free of protobuf and MLIR.
//
// Only LoadOnnx.cpp includes protobuf headers and only the Convert*/Import files include MLIR, so
// that neither pays for the other's headers.
#pragma once

#include "compiler/import/GraphSignature.h"
#include "runtime/base/Layout.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace stow::onnx {

/// Element types, numbered as TensorProto.DataType.
enum class ElementType : int32_t {
  Undefined = 0,
  Float = 1,
  UInt8 = 2,
  Int8 = 3,
  UInt16 = 4,
  Int16 = 5,
  Int32 = 6,
  Int64 = 7,
  String = 8,
  Bool = 9,
  Float16 = 10,
  Double = 11,
  UInt32 = 12,
  UInt64 = 13,
  BFloat16 = 16,
};

/// "float", "int64", ...; "type 42" for numbers that have no name here.
std::string nameOf(ElementType type);

/// Bytes of one element; absent for strings and unknown types.
std::optional<int64_t> byteWidthOf(ElementType type);

/// True for float, double, float16 and bfloat16.
bool isFloat(ElementType type);

/// Product of the dimensions; absent when one is negative or the product passes 2^40.
std::optional<int64_t> checkedElementCount(const Shape &shape);

/// "2x3x4".
std::string textOf(const Shape &shape);

/// What is wrong with a shape that has no checkedElementCount, and what to do: "a tensor of 2x3 ...".
std::string tooLarge(const Shape &shape);

/// A tensor with data: little-endian elements, row-major. `bytes` has exactly the size that shape
/// and type call for; it is shared so that a large weight is held once from file to arena.
struct Tensor {
  std::string name;
  ElementType type = ElementType::Undefined;
  Shape shape;
  std::shared_ptr<std::string> bytes;
};

struct Graph;

/// An attribute of a node. One field is meaningful, as `kind` says.
struct NodeAttribute {
  enum class Kind { Float, Int, String, Tensor, Floats, Ints, Strings, Graph, Other };
  Kind kind = Kind::Other;
  float f = 0;
  int64_t i = 0;
  std::string s;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
  std::optional<Tensor> tensor;
  std::shared_ptr<const stow::onnx::Graph> graph;
  std::string reference; ///< in a function's body: the attribute of the call that it stands for
};

struct Node {
  std::string name; ///< never empty: unnamed nodes are "<OpType>_<index>"
  std::string type;
  std::string domain; ///< "" is ai.onnx
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::map<std::string, NodeAttribute> attributes;
  /// Tensors of the graph around that the graphs among the attributes read.
  std::vector<std::string> captured;

  // What PyTorch's exporter noted; empty where it did not.
  std::string rules;      ///< rewrites that made the node: "FuseBatchNormIntoConv, ..."
  std::string fxNode;     ///< the operation of the exported program: "%linear : ... args = (...)"
  std::string modulePath; ///< module that the operation stands in: "layer1.0.conv1"
  std::string pythonLine; ///< "resnet.py:92", the line of the module's own forward
};

/// A branch of an If or the body of a Loop or Scan: beside its inputs it reads the tensors of the
/// graph around it by name.
struct Graph {
  std::vector<Node> nodes;
  std::map<std::string, Tensor> initializers;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
};

/// A function that the file defines itself.
struct Function {
  std::map<std::string, int64_t> opsets; ///< by domain, as a model's
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::map<std::string, NodeAttribute> defaults;
  std::vector<Node> nodes;
};

/// A graph input: dimensions are absent where the file has a symbol or nothing.
struct Input {
  struct Dim {
    std::optional<int64_t> size;
    std::string symbol;
  };
  std::string name;
  ElementType type = ElementType::Undefined;
  bool isTensor = true;
  std::optional<std::vector<Dim>> dims; ///< absent: no shape at all
};

struct Model {
  std::string fileName;                  ///< base name, for locations
  std::string producer;                  ///< "pytorch", ...; empty when the file does not say
  std::map<std::string, int64_t> opsets; ///< by domain; "ai.onnx" is filed under ""
  std::vector<Node> nodes;               ///< in file order
  std::map<std::pair<std::string, std::string>, Function> functions; ///< by domain and name
  std::map<std::string, Tensor> initializers;
  std::vector<Input> inputs; ///< without those that have an initializer
  std::vector<std::string> outputs;
  std::vector<std::string> obstacles;      ///< graph-level features that cannot be imported
  std::optional<GraphSignature> signature; ///< the file's own statement of what is trained
};

/// Reads a model. Throws Error(BadInput) that names the file for unreadable or malformed files,
/// external data that is missing, out of bounds or outside the model's folder.
Model load(const std::string &path);

} // namespace stow::onnx
